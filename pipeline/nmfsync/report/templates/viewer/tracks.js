"use strict";
// The track viewer: choose a track, follow it through its views, judge it by all its pairs.

viewer.ready.then(() => {
  const { node, arrays, data, counted, pairName } = viewer;
  const part = (name) => document.getElementById(`v-track-${name}`);
  const PAGE = 50; // rows of a list at a time
  const WRAPPED = 40; // views up to which the strip is as high as it needs
  const LABELLED = 40; // views up to which the pair table has symbols and names
  const MOST = 1000; // components that a page holds
  const ROUNDED = 0.04; // pixels: errors are rounded
  const WORDS = ["not judged", "right", "wrong"];
  const CLASSES = ["v-unknown", "v-right", "v-wrong"];

  const total = arrays.track_first.length - 1;
  const finite = (values) => values.some(Number.isFinite);
  const judged = data.truth !== "none" && arrays.track_judged.some((n) => n > 0);
  const estimated = finite(arrays.track_probability);

  const state = { order: "length", length: 2, image: -1, component: -1, track: -1, view: 0, turned: true };
  let ranked = []; // the tracks that pass the filters, in order
  let rows = [0, 0]; // which of them the list shows: from, to

  // --- Figures of a track ------------------------------------------------------------

  const between = (first, values, t) => values.subarray(first[t], first[t + 1]);
  const membersOf = (t) => between(arrays.track_first, arrays.track_members, t);
  const lengthOf = (t) => arrays.track_first[t + 1] - arrays.track_first[t];
  const listedOf = (t) => arrays.contradiction_first[t + 1] - arrays.contradiction_first[t];
  const removedOf = (t) => arrays.track_contradictions?.[t] ?? listedOf(t); // not all are on the page
  const wrongShare = (t) => 1 - arrays.track_right[t] / arrays.track_judged[t]; // NaN: not judged
  const chance = (byte) => (byte === 255 ? NaN : byte / 250);
  const imageOf = (f) => arrays.feature_image[f];
  const nameOf = (f) => viewer.label(imageOf(f));
  const featureName = (f) => `${nameOf(f)}, feature ${arrays.feature_number[f]}`;
  const capital = (text) => text[0].toUpperCase() + text.slice(1);
  // Tracks have their number of tracks.csv, which is not their place where some are left out.
  const numbering = arrays.track_number?.length ? arrays.track_number : Uint32Array.from({ length: total }, (_, t) => t);
  const reach = (t) => counted(lengthOf(t), "view");

  // The pair of members x < y of a track of n: what the page says of their match.
  function pairOf(t, x, y) {
    const n = lengthOf(t);
    const place = arrays.track_pair_first[t] + x * n - (x * (x + 1)) / 2 + y - x - 1;
    const bits = arrays.track_pairs[place];
    return { verdict: bits & 3, input: bits > 3, probability: chance(arrays.track_pair_probability[place]) };
  }

  // The row of a match among those drawn, or -1: a pair with many matches has a sample.
  function rowOf(a, b) {
    const [low, high] = a < b ? [a, b] : [b, a];
    const pair = viewer.pairIndex(imageOf(low), imageOf(high));
    if (pair < 0) return -1;
    for (let n = arrays.pair_first[pair]; n < arrays.pair_first[pair + 1]; n++)
      if (arrays.match_a[n] === low && arrays.match_b[n] === high) return n;
    return -1;
  }

  function openPair(a, b) {
    const [low, high] = a < b ? [a, b] : [b, a], row = rowOf(low, high);
    viewer.emit("pair", { i: imageOf(low), j: imageOf(high), match: row < 0 ? undefined : row });
  }

  // --- Choosing ----------------------------------------------------------------------

  const keys = { // the largest first, NaN last
    length: lengthOf,
    doubt: (t) => -arrays.track_probability[t],
    contradiction: removedOf,
    error: (t) => arrays.track_error[t],
    wrong: wrongShare,
  };

  function passes(t) {
    if (lengthOf(t) < state.length) return false;
    if (state.component >= 0 && arrays.track_component[t] !== state.component) return false;
    return state.image < 0 || membersOf(t).some((f) => imageOf(f) === state.image);
  }

  function rank() {
    const key = Float64Array.from({ length: total }, (_, t) => keys[state.order](t));
    const value = (t) => (Number.isNaN(key[t]) ? -Infinity : key[t]);
    const order = (s, t) => (value(t) > value(s)) - (value(t) < value(s)) || lengthOf(t) - lengthOf(s) || s - t;
    ranked = Array.from({ length: total }, (_, t) => t).filter(passes).sort(order);
    rows = [0, PAGE];
    listTracks();
  }

  // Another order or filter opens the track that is now the first.
  function choose(change) {
    Object.assign(state, change);
    rank();
    if (ranked.length) open(ranked[0]);
  }

  // The list begins anew around the open track if it does not show it.
  function showPlace() {
    const place = ranked.indexOf(state.track);
    if (place >= rows[1] && place < rows[1] + PAGE) rows[1] += PAGE;
    else if (place >= 0 && (place < rows[0] || place >= rows[1])) {
      const from = place - (place % PAGE);
      rows = [from, from + PAGE];
    }
    return place;
  }

  const columns = [
    { head: "Track", text: (t) => String(numbering[t]) },
    { head: "Views", title: "Images in which it is seen", order: "length", text: (t) => viewer.count(lengthOf(t)) },
    { head: "Right / judged", title: "Of all its pairs, each in both directions", order: "wrong", when: judged, text: rightText },
    { head: "Largest error", title: "Of all its pairs", order: "error", when: judged, text: (t) => viewer.pixels(arrays.track_error[t]) },
    { head: "Estimated precision", title: "Mean probability that its pairs are right", order: "doubt", when: estimated, text: (t) => viewer.percent(arrays.track_probability[t]) },
    { head: "Removed", title: "Matches of the input that lead out of the track", order: "contradiction", text: (t) => viewer.count(removedOf(t)) },
  ].filter((column) => column.when !== false);

  function rightText(t) {
    const judgements = arrays.track_judged[t];
    return judgements ? `${viewer.count(arrays.track_right[t])}/${viewer.count(judgements)}` : "–";
  }

  function listTracks() {
    part("columns").replaceChildren(...columns.map(({ head, title, order }) =>
      node("th", { scope: "col", title, "aria-sort": order === state.order && (order === "doubt" || order === "wrong" ? "ascending" : "descending") }, head)));
    fillRows();
    markRow();
    say();
  }

  function fillRows() {
    const [from, to] = rows, left = ranked.length - to;
    part("rows").replaceChildren(...ranked.slice(from, to).map(rowFor));
    more(part("before"), from, "before", () => { rows[0] = Math.max(0, from - PAGE); });
    more(part("after"), left, "more", () => { rows[1] += PAGE; });
  }

  function more(button, left, word, widen) {
    button.hidden = left <= 0;
    button.textContent = `Show ${Math.min(PAGE, left)} ${word}`;
    button.onclick = () => { widen(); fillRows(); markRow(); };
  }

  function rowFor(t) {
    const [name, ...others] = columns.map((column) => column.text(t));
    const button = node("button", { type: "button", class: "v-link", tabindex: -1, "aria-label": `Track ${name}` }, name);
    return node("tr", { "data-track": t, onclick: () => open(t) },
      node("th", { scope: "row" }, button), ...others.map((text) => node("td", {}, text)));
  }

  // One row can be reached with the tabulator key; the arrow keys lead to the others.
  function markRow() {
    const current = part("rows").querySelector(`[data-track="${state.track}"]`);
    for (const row of part("rows").children) mark(row, row === current);
    const reachable = current ?? part("rows").firstElementChild;
    if (reachable) reachable.querySelector("button").tabIndex = 0;
    if (current) scrollWithin(part("list"), current);
  }

  function mark(row, chosen) {
    row.classList.toggle("v-chosen", chosen);
    const button = row.querySelector("button");
    button.tabIndex = -1;
    if (chosen) button.setAttribute("aria-current", "true");
    else button.removeAttribute("aria-current");
  }

  function scrollWithin(box, row) { // without scrolling the page
    const outer = box.getBoundingClientRect(), inner = row.getBoundingClientRect();
    const head = part("columns").getBoundingClientRect().height;
    if (inner.top < outer.top + head) box.scrollTop -= outer.top + head - inner.top;
    else if (inner.bottom > outer.bottom) box.scrollTop += inner.bottom - outer.bottom;
  }

  function say(fault = "") {
    const place = ranked.indexOf(state.track);
    const shown = ranked.length === total ? counted(total, "track") : `${viewer.count(ranked.length)} of ${counted(total, "track")}`;
    const where = place < 0 ? "the open one is not among them" : `the open one is number ${viewer.count(place + 1)} in this order`;
    part("status").textContent = fault || (ranked.length ? `${shown}; ${where}.` : "No track passes these filters.");
    part("previous").disabled = place < 0 ? !ranked.length : place === 0;
    part("next").disabled = place < 0 ? !ranked.length : place === ranked.length - 1;
  }

  function step(by) {
    const place = ranked.indexOf(state.track);
    const next = place < 0 ? 0 : Math.min(Math.max(place + by, 0), ranked.length - 1);
    if (ranked.length) open(ranked[next]);
  }

  function moveInList(event) {
    const by = { ArrowUp: -1, ArrowDown: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity }[event.key];
    if (!by || event.target.closest(".v-track-more")) return;
    event.preventDefault();
    step(by);
    part("rows").querySelector(".v-chosen button")?.focus({ preventScroll: true });
  }

  function openNumber() {
    const text = part("number").value, t = text === "" ? -1 : numbering.indexOf(Number(text));
    const all = `the page has ${viewer.count(total)} tracks, numbered from ${numbering[0]} to ${numbering[total - 1]}`;
    if (t >= 0) open(t);
    else say(`There is no track ${text || "without a number"}: ${all}.`);
  }

  // --- One track ---------------------------------------------------------------------

  function open(t, { hash = true } = {}) {
    state.track = t;
    state.view = 0;
    const listed = rows.join();
    showPlace();
    if (listed !== rows.join()) fillRows();
    markRow();
    say();
    part("number").value = numbering[t];
    part("title").textContent = `Track ${numbering[t]}`;
    showVerdict(t);
    showViews(t);
    drawMatrix();
    showRemoved(t);
    drawRestLater();
    if (hash) viewer.remember("track", numbering[t]);
  }

  function showVerdict(t) {
    const n = lengthOf(t), every = (n * (n - 1)) / 2;
    const matched = between(arrays.track_pair_first, arrays.track_pairs, t).reduce((sum, bits) => sum + (bits > 3), 0);
    const parts = [...judgement(t), ...estimate(t)].flatMap((piece, place) => (place ? ["; ", piece] : [capital(piece)])).flat();
    part("verdict").replaceChildren(
      `${reach(t)}, ${counted(every, "pair")} of views, of which the input matched ${viewer.count(matched)}. `,
      ...(parts.length ? [node("b", {}, ...parts, ".")] : []));
  }

  function judgement(t) {
    if (!judged) return [];
    const n = arrays.track_judged[t];
    if (!n) return ["No pair of it can be judged"];
    const right = `${viewer.count(arrays.track_right[t])} of ${counted(n, "judged direction")} ${n === 1 ? "is" : "are"} right`;
    return [right, ...(Number.isFinite(arrays.track_error[t]) ? [largest(t)] : [])];
  }

  // The pair with the largest error is named if its match is among the drawn ones.
  function largest(t) {
    const words = `the largest error is ${viewer.pixels(arrays.track_error[t])}`, pair = worstPair(t);
    if (!pair) return words;
    const label = `${nameOf(pair[0])} and ${nameOf(pair[1])}`;
    return [`${words} between `, node("button", { type: "button", class: "v-link", title: "Open this pair", onclick: () => openPair(...pair) }, label)];
  }

  function worstPair(t) {
    const members = membersOf(t), worst = arrays.track_error[t];
    for (let x = 0; x < members.length; x++)
      for (let y = x + 1; y < members.length; y++) {
        const row = pairOf(t, x, y).verdict === UNKNOWN ? -1 : rowOf(members[x], members[y]);
        if (row >= 0 && Math.abs(arrays.match_error[row] - worst) < ROUNDED) return [members[x], members[y]];
      }
    return null;
  }

  const estimate = (t) => {
    const share = arrays.track_probability[t];
    return Number.isFinite(share) ? [`estimated precision ${viewer.percent(share)}`] : [];
  };

  // --- Patches -----------------------------------------------------------------------

  const patches = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) if (isIntersecting) drawOnce(target);
  }, { rootMargin: "300px" });

  function patch(f) {
    const canvas = node("canvas", { "aria-hidden": "true", "data-feature": f });
    patches.observe(canvas);
    return canvas;
  }

  function drawOnce(canvas) {
    patches.unobserve(canvas);
    canvas.width = canvas.height = 192;
    canvas.dataset.drawn = "";
    viewer.drawPatch(canvas, Number(canvas.dataset.feature), { turned: state.turned });
  }

  // Those of a short track are drawn for print too, once the reader stays with it.
  let waiting = 0;
  function drawRestLater() {
    clearTimeout(waiting);
    if (lengthOf(state.track) <= WRAPPED) waiting = setTimeout(drawRest, 500);
  }

  const drawRest = () => part("all").querySelectorAll("canvas[data-feature]:not([data-drawn])").forEach(drawOnce);

  function turn(turned) {
    state.turned = turned;
    for (const box of document.querySelectorAll(".v-track-turned")) box.checked = turned;
    for (const canvas of part("all").querySelectorAll("canvas[data-drawn]")) drawOnce(canvas);
  }

  // --- Views -------------------------------------------------------------------------

  function memberOf(t, x) {
    const place = arrays.track_first[t] + x;
    return {
      feature: arrays.track_members[place], right: arrays.member_right[place],
      judged: arrays.member_judged[place], probability: arrays.member_probability[place],
    };
  }

  const verdictOf = ({ right, judged: n }) => (n === 0 ? UNKNOWN : right === n ? RIGHT : WRONG);

  function memberWords(member) {
    const words = [];
    if (judged) words.push(member.judged ? `${member.right} of ${member.judged} right` : "not judged");
    if (Number.isFinite(member.probability)) words.push(`est. ${viewer.percent(member.probability)}`);
    return words;
  }

  function showViews(t) {
    patches.disconnect();
    const list = part("views");
    list.classList.toggle("v-many", lengthOf(t) > WRAPPED);
    list.scrollTop = 0;
    list.replaceChildren(...Array.from({ length: lengthOf(t) }, (_, x) => viewFor(t, x)));
  }

  function viewFor(t, x) {
    const member = memberOf(t, x), words = memberWords(member);
    const button = node("button", {
      type: "button", class: judged ? CLASSES[verdictOf(member)] : "",
      "aria-label": [featureName(member.feature), ...words].join(", "), onclick: () => showBook(x),
    }, patch(member.feature), node("b", { title: nameOf(member.feature) }, nameOf(member.feature)),
    node("span", {}, `feature ${arrays.feature_number[member.feature]}`), ...words.map((text) => node("span", {}, text)));
    return node("li", {}, button);
  }

  function moveInViews(event) {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const item = event.target.closest("li");
    if (!by || !item) return;
    event.preventDefault();
    (by < 0 ? item.previousElementSibling : item.nextElementSibling)?.querySelector("button").focus();
  }

  // --- Flip book: the whole photographs ----------------------------------------------

  function showBook(x) {
    turnPage(x);
    part("book").showModal();
  }

  function turnPage(x) {
    const t = state.track, member = memberOf(t, x), f = member.feature;
    state.view = x;
    part("book-title").textContent = nameOf(f);
    part("book-photo").replaceChildren(photograph(f));
    part("book-patch").dataset.feature = f;
    drawPagePatch();
    part("book-facts").textContent = [`View ${x + 1} of ${lengthOf(t)} of track ${numbering[t]}`, `feature ${arrays.feature_number[f]}`, ...memberWords(member)].join(" · ");
    part("book-previous").disabled = x === 0;
    part("book-next").disabled = x === lengthOf(t) - 1;
  }

  function drawPagePatch() {
    const canvas = part("book-patch");
    canvas.dataset.drawn = "";
    drawOnce(canvas);
  }

  // The photograph with a ring around the feature, a line to its right side, and a white
  // rim around both; the centre of the top-left pixel is (0, 0).
  function photograph(f) {
    const { image, x, y, scale, orientation } = viewer.feature(f), { width, height, source } = data.images[image];
    const radius = Math.max(scale / 2, Math.max(width, height) / 60);
    const angle = Number.isFinite(orientation) ? orientation : 0;
    const ring = `M${radius},0 A${radius},${radius} 0 1 0 ${-radius},0 A${radius},${radius} 0 1 0 ${radius},0 H${2 * radius}`;
    const drawn = (name) => node("path", { class: name, d: ring, transform: `translate(${x} ${y}) rotate(${angle})` });
    return node("svg", { viewBox: `-0.5 -0.5 ${width} ${height}`, role: "img", "aria-label": `${viewer.label(image)} with the feature marked` },
      source ? node("image", { href: source, x: -0.5, y: -0.5, width, height, preserveAspectRatio: "none" })
        : node("rect", { class: "v-empty", x: -0.5, y: -0.5, width, height }),
      drawn("v-rim"), drawn("v-ring"));
  }

  function movePage(by) {
    const next = state.view + by;
    if (next >= 0 && next < lengthOf(state.track)) turnPage(next);
  }

  function moveInBook(event) {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by) return;
    event.preventDefault();
    movePage(by);
  }

  const leaveBook = () => part("views").children[state.view]?.querySelector("button").focus();

  // --- The table of all pairs --------------------------------------------------------

  let matrix = null; // of the open track: how it is drawn, and the cell of the cursor

  const shades = {
    verdict: { when: judged, of: (pair) => CLASSES[pair.verdict] },
    probability: {
      when: finite(arrays.track_probability),
      of: ({ probability: p }) => (Number.isNaN(p) ? "v-none" : `v-shade-${Math.min(4, Math.floor(5 * p))}`),
    },
    input: { when: true, of: (pair) => (pair.input ? "v-kept" : "v-added") },
  };

  function drawMatrix() {
    const t = state.track, n = lengthOf(t), small = n <= LABELLED;
    const cell = small ? Math.max(14, Math.min(44, Math.floor(640 / n))) : 720 / n;
    const margin = small ? 16 + 7.6 * longestName(t) : 0, size = n * cell;
    const cursor = node("rect", { class: "v-cursor", width: cell, height: cell });
    const drawing = node("svg", {
      viewBox: `0 0 ${margin + size + 1} ${margin + size + 1}`, style: `max-width: ${margin + size + 1}px`, tabindex: 0,
      role: "application", "aria-describedby": "v-track-cell", "aria-label": `Pairs of the ${n} views: arrow keys choose a pair, Enter opens it`,
      onkeydown: moveCursor, onpointermove: pointAt, onclick: clickAt,
    }, ...(small ? names(t, cell, margin) : []), node("rect", { class: "v-ground", x: margin, y: margin, width: size, height: size }),
    ...cells(t, cell, margin, small), cursor);
    const [x, y] = matrix?.track === t ? matrix.at : [0, 1];
    matrix = { track: t, cell, margin, small, drawing, cursor, at: [x, y] };
    part("matrix").replaceChildren(drawing);
    key();
    moveTo(x, y);
  }

  const longestName = (t) => Math.max(...Array.from(membersOf(t), (f) => cut(nameOf(f)).length));
  const cut = (text, length = 12) => (text.length > length ? `${text.slice(0, length - 1)}…` : text);

  function names(t, cell, margin) {
    return [...membersOf(t)].flatMap((f, n) => {
      const at = margin + (n + 0.5) * cell, label = (attributes) => node("text", attributes, cut(nameOf(f)), node("title", {}, featureName(f)));
      return [
        label({ x: margin - 6, y: at, "text-anchor": "end", "dominant-baseline": "central" }),
        label({ transform: `translate(${at} ${margin - 6}) rotate(-90)`, "dominant-baseline": "central" }),
      ];
    });
  }

  // One path for all cells of a kind, so that a long track needs a handful of elements.
  function cells(t, cell, margin, small) {
    const fills = new Map(), marks = new Map(), shade = shades[part("shade").value].of;
    const put = (paths, kind, d) => paths.set(kind, (paths.get(kind) ?? "") + d);
    for (let y = 0; y < lengthOf(t); y++)
      for (const { kind, x, pair, length } of runs(t, y, shade, small)) {
        const gap = small ? 1 : 0, left = fixed(margin + x * cell + gap), top = fixed(margin + y * cell + gap), side = cell - 2 * gap;
        put(fills, kind, box(left, top, fixed(side + (length - 1) * cell), fixed(side)));
        if (small) for (const [name, d] of marksOf(kind, pair)) put(marks, name, d(left, top, side));
      }
    const drawn = [...fills, ...marks].map(([kind, d]) => node("path", { class: kind, d }));
    return small && part("shade").value === "probability" && cell >= 20 ? [...drawn, ...numbers(t, cell, margin)] : drawn;
  }

  // The cells of row y: every one, or of a long track those of a kind side by side as one.
  function runs(t, y, shade, single) {
    const found = [];
    for (let x = 0; x < lengthOf(t); x++) {
      if (x === y) continue;
      const pair = pairOf(t, Math.min(x, y), Math.max(x, y)), kind = shade(pair), last = found.at(-1);
      if (!single && last?.kind === kind && last.x + last.length === x) last.length++;
      else found.push({ kind, x, pair, length: 1 });
    }
    return found;
  }

  function marksOf(kind, pair) {
    const found = [];
    if (kind === "v-wrong") found.push(["v-cross", cross]);
    if (kind === "v-right") found.push(["v-tick", tick]);
    if (pair.input && part("shade").value !== "input") found.push(["v-corner", corner]);
    return found;
  }

  function numbers(t, cell, margin) {
    const n = lengthOf(t), at = (place) => margin + (place + 0.5) * cell, found = [];
    for (let x = 0; x < n; x++)
      for (let y = x + 1; y < n; y++) {
        const { probability: p } = pairOf(t, x, y);
        if (!Number.isNaN(p)) found.push(digits(p, at(x), at(y)), digits(p, at(y), at(x)));
      }
    return found;
  }

  const fixed = (value) => Math.round(100 * value) / 100;
  const box = (x, y, w, h) => `M${x},${y}h${w}v${h}h${-w}z`;
  const cross = (x, y, s) => `M${x + 0.3 * s},${y + 0.3 * s}l${0.4 * s},${0.4 * s}m0,${-0.4 * s}l${-0.4 * s},${0.4 * s}`;
  const tick = (x, y, s) => `M${x + 0.28 * s},${y + 0.52 * s}l${0.16 * s},${0.18 * s}l${0.3 * s},${-0.4 * s}`;
  const corner = (x, y, s) => `M${x},${y}h${0.3 * s}l${-0.3 * s},${0.3 * s}z`;
  const digits = (p, x, y) => node("text", { class: "v-digits", x, y, "text-anchor": "middle", "dominant-baseline": "central" }, String(Math.round(100 * p)));

  // --- Its cursor --------------------------------------------------------------------

  function moveTo(x, y) {
    const { cell, margin, cursor, track } = matrix, members = membersOf(track);
    matrix.at = [x, y];
    cursor.setAttribute("x", margin + x * cell);
    cursor.setAttribute("y", margin + y * cell);
    part("cell").textContent = x === y ? `${[featureName(members[x]), ...memberWords(memberOf(track, x))].join(", ")} (all its pairs).` : pairWords(track, Math.min(x, y), Math.max(x, y));
    part("pair").disabled = x === y;
  }

  function pairWords(t, x, y) {
    const pair = pairOf(t, x, y), members = membersOf(t), row = rowOf(members[x], members[y]);
    const error = row < 0 ? NaN : arrays.match_error[row];
    const words = [...matchWords(pair, error), pair.input ? "the input has the match" : "added by synchronisation"];
    return `${featureName(members[x])} – ${featureName(members[y])}: ${words.join(", ")}.`;
  }

  // What is known of a match, without words about what the page does not know.
  function matchWords({ verdict, probability }, error = NaN) {
    const words = [];
    if (judged) words.push(WORDS[verdict]);
    if (Number.isFinite(error)) words.push(`error ${viewer.pixels(error)}`);
    if (Number.isFinite(probability)) words.push(`est. ${viewer.percent(probability)}`);
    return words;
  }

  function moveCursor(event) {
    const by = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (event.key === "Enter") return openCell();
    if (!by) return;
    event.preventDefault();
    const last = lengthOf(matrix.track) - 1;
    moveTo(...matrix.at.map((at, n) => Math.min(Math.max(at + by[n], 0), last)));
  }

  function cellAt(event) {
    const box = matrix.drawing.getBoundingClientRect(), n = lengthOf(matrix.track);
    const scale = matrix.drawing.viewBox.baseVal.width / box.width;
    const at = [event.clientX - box.left, event.clientY - box.top].map((v) => Math.floor((v * scale - matrix.margin) / matrix.cell));
    return at.every((v) => v >= 0 && v < n) ? at : null;
  }

  function pointAt(event) {
    const at = cellAt(event);
    matrix.drawing.style.cursor = at && at[0] !== at[1] ? "pointer" : "default";
    if (at && event.pointerType !== "touch" && at.join() !== matrix.at.join()) moveTo(...at);
  }

  // A finger is wider than most cells: it chooses, and the button opens.
  function clickAt(event) {
    const at = cellAt(event);
    if (!at) return;
    moveTo(...at);
    if (event.pointerType !== "touch") openCell();
  }

  function openCell() {
    const [x, y] = matrix.at, members = membersOf(matrix.track);
    if (x !== y) openPair(members[x], members[y]);
  }

  // --- Input matches that were removed -----------------------------------------------

  // The strongest first; those of unknown probability last.
  function removedMatches(t) {
    const places = Array.from({ length: listedOf(t) }, (_, n) => arrays.contradiction_first[t] + n);
    const strength = (n) => { const p = chance(arrays.contradiction_probability[n]); return Number.isNaN(p) ? -1 : p; };
    return places.sort((m, n) => strength(n) - strength(m) || m - n);
  }

  function showRemoved(t) {
    const places = removedMatches(t);
    part("against").textContent = places.length ? removedWords(t, places) : "No input match leads from this track to a feature outside it: synchronisation removed none here.";
    part("removed").replaceChildren();
    part("removed").hidden = !places.length;
    moreRemoved(t, places, 10);
  }

  function removedWords(t, places) {
    const n = removedOf(t), judgements = places.map((place) => arrays.contradiction_verdict[place]).filter((v) => v !== UNKNOWN);
    const wrong = judgements.filter((v) => v === WRONG).length;
    const words = [n === 1 ? "The input matches a feature of this track with one outside it; synchronisation removed this match."
      : `The input has ${viewer.count(n)} matches from features of this track to features outside it; synchronisation removed them.`];
    if (n > places.length) words.push(`This page has the ${viewer.count(places.length)} most probable ones.`);
    if (judgements.length) words.push(`${viewer.count(wrong)} of ${counted(judgements.length, "judged one")} ${wrong === 1 ? "is" : "are"} wrong.`);
    return words.join(" ");
  }

  function moreRemoved(t, places, step) {
    const button = part("removed-more"), list = part("removed");
    list.append(...places.slice(list.childElementCount, list.childElementCount + step).map((place) => removedItem(t, place)));
    const left = places.length - list.childElementCount;
    button.hidden = left <= 0;
    button.textContent = `Show ${Math.min(PAGE, left)} more`;
    button.onclick = () => moreRemoved(t, places, PAGE);
  }

  function removedItem(t, place) {
    const a = arrays.contradiction_a[place], b = arrays.contradiction_b[place], taken = arrays.contradiction_taken[place];
    const removed = { verdict: arrays.contradiction_verdict[place], probability: chance(arrays.contradiction_probability[place]) };
    const other = viewer.trackOf(b);
    return node("li", {},
      node("div", { class: "v-track-trio" }, shown(a, "In the track", []), shown(b, "Removed partner", matchWords(removed), removed.verdict), instead(t, a, b, taken)),
      node("div", { class: "v-buttons" },
        node("button", { type: "button", onclick: () => openPair(a, b) }, `Open ${pairName(imageOf(a), imageOf(b))}`),
        other < 0 ? node("span", { class: "note" }, `The partner is in no track${data.tracks_left_out ? " of this page" : ""}.`)
          : node("button", { type: "button", onclick: () => visit(other) }, `Partner’s track ${numbering[other]}`)));
  }

  // The track's own feature in the image of a removed partner, and how well it fits.
  function instead(t, a, b, taken) {
    if (taken === NONE) return node("p", { class: "note" }, `The track is not seen in ${nameOf(b)}.`);
    const members = membersOf(t), [x, y] = [members.indexOf(a), members.indexOf(taken)].sort((m, n) => m - n);
    const pair = pairOf(t, x, y);
    return shown(taken, "The track has instead", matchWords(pair), pair.verdict);
  }

  function shown(f, role, words, verdict) {
    const kind = judged && verdict !== undefined ? CLASSES[verdict] : "";
    return node("figure", { class: kind }, patch(f),
      node("figcaption", {}, node("span", {}, role), node("b", { title: nameOf(f) }, nameOf(f)), node("span", {}, `feature ${arrays.feature_number[f]}`), ...words.map((text) => node("span", {}, text))));
  }

  // --- Components --------------------------------------------------------------------

  function showComponents(upTo) {
    const count = arrays.component_features.length;
    part("components").textContent = count ? componentWords(count) : "No component of the input was inconsistent: none has two features of one image.";
    part("component-table").hidden = !count;
    const body = part("component-rows"), button = part("component-more"), left = count - upTo;
    body.replaceChildren(...Array.from({ length: Math.min(upTo, count) }, (_, c) => componentRow(c)));
    button.hidden = left <= 0;
    button.textContent = `Show ${Math.min(PAGE, left)} more`;
    button.onclick = () => showComponents(upTo + PAGE);
  }

  const componentWords = (count) =>
    `The matches of the input connect two or more features of one image in ${count >= MOST ? "at least " : ""}${counted(count, "component")}, so some of these matches are wrong. Those that lost most matches come first; the number of one lists its tracks.`;

  function componentRow(c) {
    const figures = ["features", "images", "matches", "removed", "tracks"].map((name) => arrays[`component_${name}`][c]);
    const button = node("button", {
      type: "button", class: "v-link", "aria-label": `Component ${c + 1}: show its tracks`,
      disabled: !arrays.track_component.includes(c), onclick: () => chooseComponent(c),
    }, String(c + 1));
    return node("tr", {}, node("th", { scope: "row" }, button), ...figures.map((n) => node("td", {}, viewer.count(n))));
  }

  function chooseComponent(c) {
    part("component").hidden = c < 0;
    part("component").firstElementChild.textContent = `Only the tracks of component ${c + 1} of the input.`;
    choose({ component: c });
    part("list").scrollIntoView({ block: "center" });
    part("rows").querySelector("[tabindex='0']")?.focus({ preventScroll: true });
  }

  // --- The whole ---------------------------------------------------------------------

  // Open a track from elsewhere on the page, and lead the reader there.
  function visit(t) {
    open(t);
    part("title").scrollIntoView();
    part("title").focus({ preventScroll: true });
  }

  function addressed() {
    const wanted = viewer.addressed("track");
    return /^\d+$/.test(wanted ?? "") ? numbering.indexOf(Number(wanted)) : -1;
  }

  function about() {
    const method = data.methods[viewer.methodIndex(data.tracks)].name;
    const left = data.tracks_left_out;
    return left ? `${method} returns ${counted(total + left, "track")}; this page has ${viewer.count(total)} of them: the longest, most doubtful, most contradicted and most wrong ones, and others between them.`
      : `The page has all ${counted(total, "track")} of ${method}.`;
  }

  function sample(kind, text) {
    return node("span", {}, node("i", { class: kind, "aria-hidden": "true" }), text);
  }

  function legend() {
    part("both").hidden = !judged;
    if (!judged) return;
    part("legend").replaceChildren(sample("v-right", "all judged pairs right"), sample("v-wrong", "some wrong"), sample("v-unknown", "not judged"));
  }

  function key() {
    const corner = lengthOf(state.track) <= LABELLED ? sample("v-corner", "in the input") : "";
    part("key").replaceChildren(...{
      verdict: [sample("v-right", "right"), sample("v-wrong", "wrong"), sample("v-unknown", "not judged"), corner],
      probability: [sample("v-shade-0", "0–20 %"), sample("v-shade-4", "80–100 %"), corner],
      input: [sample("v-kept", "in the input"), sample("v-added", "added")],
    }[part("shade").value]);
  }

  function offer() {
    const drop = (select, values) => { for (const value of values) part(select).querySelector(`[value="${value}"]`).remove(); };
    drop("order", [...(judged ? [] : ["error", "wrong"]), ...(estimated ? [] : ["doubt"])]);
    drop("shade", Object.keys(shades).filter((name) => !shades[name].when));
    part("image").append(...data.images.map((image, i) => node("option", { value: i }, cut(image.label, 40))));
    part("number").max = numbering[total - 1];
  }

  function listen() {
    part("order").onchange = (event) => choose({ order: event.target.value });
    part("length").oninput = (event) => choose({ length: Number(event.target.value) || 2 });
    part("image").onchange = (event) => choose({ image: Number(event.target.value) });
    part("number").onchange = openNumber;
    part("previous").onclick = () => step(-1);
    part("next").onclick = () => step(1);
    part("list").onkeydown = moveInList;
    part("component").lastElementChild.onclick = () => chooseComponent(-1);
    for (const box of document.querySelectorAll(".v-track-turned")) box.onchange = () => turn(box.checked);
    part("views").onkeydown = moveInViews;
    part("shade").onchange = drawMatrix;
    part("pair").onclick = openCell;
    part("book-close").onclick = () => part("book").close();
    part("book-previous").onclick = () => movePage(-1);
    part("book-next").onclick = () => movePage(1);
    part("book").onkeydown = moveInBook;
    part("book").onclose = leaveBook;
    viewer.on("track", ({ track }) => visit(track));
    addEventListener("hashchange", () => { if (addressed() >= 0 && addressed() !== state.track) visit(addressed()); });
    addEventListener("beforeprint", drawRest);
  }

  function start() {
    part("none").hidden = total > 0;
    part("all").hidden = !total;
    if (!total) {
      part("none").textContent = data.tracks ? "The matches of this page form no track." : "No method of this page returns tracks.";
      return;
    }
    part("about").textContent = about();
    document.getElementById("tracks").classList.toggle("v-blind", data.images.every((image) => !image.source));
    offer();
    legend();
    listen();
    rank();
    showComponents(10);
    // An address that also names a pair keeps the place of the page.
    if (addressed() >= 0) (viewer.addressed("pair") ? open : visit)(addressed());
    else open(ranked[0], { hash: false });
  }

  start();
});
