// Two photographs and the matches between them.
{
  const { node, count, percent, pixels, label } = viewer;
  const at = (id) => document.getElementById(id);
  const svg = at("v-picture");
  const { images, methods, truth, cameras } = viewer.data;
  const judged = truth !== "none";
  const MOST = 1500; // lines drawn at once; more would hide the photographs and be slow
  const GAP = 12; // between the photographs, where a photograph is 1000 high or wide
  const NARROW = 620; // CSS pixels: below, one photograph above the other

  let pair = { i: 0, j: 0, n: -1 };
  // Where the two photographs are in the drawing, and which part of each is seen, in its pixels.
  let boxes = [], windows = [], size = { w: 1, h: 1 };
  let rows = [], lines = []; // matches of input or method on the page; those drawn: { row, element, from, to }
  let held = null, pointed = null; // rows of matches
  let colour = "change";

  // --- What a match is ---------------------------------------------------------------

  const CHANGES = ["kept", "removed", "added"];
  const VERDICTS = ["right", "wrong", "unknown"];
  const change = (row) => {
    const bits = viewer.arrays.match_methods[row];
    return !(bits & 1) ? "added" : (bits >> viewer.method) & 1 ? "kept" : "removed";
  };
  const verdict = (row) => ({ [RIGHT]: "right", [WRONG]: "wrong" })[viewer.arrays.match_verdict[row]] || "unknown";
  const probability = (row) => {
    const value = viewer.arrays.match_probability[row];
    return value === 255 ? NaN : value / 250;
  };

  // Classes of numbers, from the worst to the best: [upper or lower end, words].
  const PROBABILITIES = ["below 20 %", "20 to 40 %", "40 to 60 %", "60 to 80 %", "from 80 %"];
  const DISTANCES = ["above 10 px", "5 to 10 px", "2 to 5 px", "1 to 2 px", "below 1 px"];
  const distanceClass = (d) => [10, 5, 2, 1].filter((limit) => d <= limit).length;
  const binned = (value, place) => (Number.isFinite(value) ? `bin${place(value)}` : "unknown");
  const bins = (words) => [...words.map((text, n) => [`bin${n}`, text]), ["unknown", "not known"]];

  // Ways to colour: name, class of a match, legend.
  const COLOURS = {
    verdict: ["Right or wrong", verdict, () => [["right", "right"], ["wrong", "wrong"], ["unknown", "not judged by the truth"]]],
    change: ["Kept, removed, added", change, () => [["kept", "kept"], ["removed", "removed"], ["added", "added"]]],
    probability: ["Probability", (row) => binned(probability(row), (p) => Math.min(4, Math.floor(5 * p))), () => bins(PROBABILITIES)],
    epipolar: ["Distance to the epipolar line", (row) => binned(viewer.arrays.match_epipolar[row], distanceClass), () => bins(DISTANCES)],
  };

  // --- Which matches -----------------------------------------------------------------

  const ticked = (name) => at(`v-show-${name}`).checked;
  const inRange = (row) => {
    const low = Number(at("v-pair-low").value), high = Number(at("v-pair-high").value), p = 100 * probability(row);
    return low <= 0 && high >= 100 ? true : p >= low && p <= high;
  };
  const passes = (row) => ticked(change(row)) && (!judged || ticked(verdict(row))) && inRange(row);

  const rowsOfPair = () => {
    if (pair.n < 0) return [];
    const { pair_first: first, match_methods: methodsOf } = viewer.arrays, found = [];
    const wanted = 1 | (1 << viewer.method);
    for (let row = first[pair.n]; row < first[pair.n + 1]; row++) if (methodsOf[row] & wanted) found.push(row);
    return found;
  };

  const evenly = (all) => (all.length <= MOST ? all : Array.from({ length: MOST }, (_, n) => all[Math.floor((n * all.length) / MOST)]));

  const ends = (row) => [viewer.arrays.match_a[row], viewer.arrays.match_b[row]];

  // A feature in the pixels of its image, from the corner of the top-left pixel, whose centre is (0, 0).
  const pixel = (f) => {
    const { x, y } = viewer.feature(f);
    return [x + 0.5, y + 0.5];
  };

  const within = ([x, y], { x: left, y: top, w, h }) => x >= left && y >= top && x <= left + w && y <= top + h;

  // A place in a photograph in the units of the drawing; at the edge if the zoom hides it.
  const place = ([x, y], side) => {
    const box = boxes[side], part = windows[side], inside = (share) => Math.max(0, Math.min(1, share));
    const tenth = (value) => Math.round(10 * value) / 10; // short texts are quicker
    return [tenth(box.x + box.w * inside((x - part.x) / part.w)), tenth(box.y + box.h * inside((y - part.y) / part.h))];
  };

  // --- Drawing -----------------------------------------------------------------------

  const narrow = () => svg.parentElement.clientWidth < NARROW;

  // Photographs of one height side by side, or of one width one above the other.
  const arrange = () => {
    const [a, b] = [images[pair.i], images[pair.j]];
    const scales = [a, b].map((image) => 1000 / Math.max(narrow() ? image.width : image.height, 1));
    const sizes = [a, b].map((image, n) => [image.width * scales[n], image.height * scales[n]]);
    const second = narrow() ? { x: 0, y: sizes[0][1] + GAP } : { x: sizes[0][0] + GAP, y: 0 };
    boxes = [{ x: 0, y: 0 }, second].map((corner, n) => ({ ...corner, w: sizes[n][0], h: sizes[n][1] }));
    windows = [a, b].map(whole);
    size = { w: second.x + sizes[1][0], h: second.y + sizes[1][1] };
  };

  const whole = ({ width, height }) => ({ x: 0, y: 0, w: Math.max(width, 1), h: Math.max(height, 1) });

  const photograph = (side) => {
    const i = side ? pair.j : pair.i, { x, y, w, h } = boxes[side];
    const { source, width, height } = images[i];
    if (source) {
      const picture = node("image", { href: source, width, height, preserveAspectRatio: "none" });
      return [node("svg", { "data-side": side, x, y, width: w, height: h, preserveAspectRatio: "none" }, picture)];
    }
    return [
      node("rect", { class: "v-frame", x, y, width: w, height: h }),
      node("text", { class: "v-missing", x: x + w / 2, y: y + h / 2 }, "no photograph on this page"),
    ];
  };

  const mark = (row) => {
    const [, classOf] = COLOURS[colour];
    const gone = change(row) === "removed";
    return node("g", { class: `v-match v-${classOf(row)} ${gone ? "v-gone" : ""}`, "data-row": row },
      node("path", { class: "v-line" }), node("path", { class: "v-ends" }), ...(gone ? [node("path", { class: "v-holes" })] : []));
  };

  // Put a match where the parts that are seen of the photographs have its ends.
  const put = (row, element) => {
    const pixels = ends(row).map(pixel), seen = pixels.map((at, side) => within(at, windows[side]));
    const [from, to] = pixels.map(place), out = !seen.includes(true);
    element.classList.toggle("v-out", out);
    element.classList.toggle("v-cut", !out && seen.includes(false));
    if (out) return { row, element, from, to };
    const dots = [from, to].filter((_, side) => seen[side]).map((at) => `M${at}h0`).join("");
    const [line, ...rest] = element.children;
    line.setAttribute("d", `M${from}L${to}`);
    for (const path of rest) path.setAttribute("d", dots);
    return { row, element, from, to };
  };

  const photographs = node("g"), marks = node("g"), top = node("g", { class: "v-top" });

  const drawPhotographs = () => {
    arrange();
    photographs.replaceChildren(...photograph(0), ...photograph(1));
    svg.setAttribute("viewBox", `0 0 ${size.w} ${size.h}`);
    svg.style.aspectRatio = `${size.w} / ${size.h}`;
    const words = narrow() ? ["Above", "Below"] : ["Left", "Right"];
    at("v-names").style.gridTemplateColumns = narrow() ? "1fr" : boxes.map((box) => `${box.w}fr`).join(" ");
    at("v-names").replaceChildren(...[pair.i, pair.j].map((i, n) => node("span", {}, node("b", {}, `${words[n]}: `), label(i))));
    lines = []; // of other photographs, or of the old arrangement
    for (const side of sides) see(side, whole(image(side)));
    svg.classList.remove("v-zoomed");
  };

  const drawLines = () => {
    rows = rowsOfPair();
    const passing = rows.filter(passes);
    lines = evenly(passing).map((row) => put(row, mark(row)));
    marks.replaceChildren(...lines.map(({ element }) => element));
    drawLegend();
    drawCounts(passing.length);
    drawHighlight();
  };

  const drawLegend = () => {
    const sample = (name) => node("svg", { width: 44, height: 14, "aria-hidden": "true" }, node("g", { class: `v-match v-${name}` },
      node("path", { class: "v-line", d: "M6 7L38 7" }), node("path", { class: "v-ends", d: "M6 7h0M38 7h0" }), node("path", { class: "v-holes", d: "M6 7h0M38 7h0" })));
    const entry = ([name, text]) => node("li", {}, sample(name === "removed" ? "removed v-gone" : name), text);
    const hollow = colour === "change" || viewer.method === 0 ? [] : [["neutral v-gone", "hollow ends: removed"]];
    at("v-pair-legend").replaceChildren(...[...COLOURS[colour][2](), ...hollow].map(entry));
  };

  const drawCounts = (passing) => {
    const figures = viewer.figures(pair.n), all = figures.input + figures.added;
    const shown = passing > lines.length
      ? `Shown ${count(lines.length)}, evenly chosen, of ${count(passing)} that pass the filters, of ${viewer.counted(rows.length, "match", "matches")}`
      : `Shown ${count(lines.length)} of ${viewer.counted(rows.length, "match", "matches")}`;
    const sample = rows.length < all ? `; ${count(all)} in all, of which a sample is on this page` : "";
    at("v-pair-count").textContent = all ? `${shown}${sample}.` : "";
    for (const name of CHANGES) tell(name, rows.filter((row) => change(row) === name).length);
    if (judged) for (const name of VERDICTS) tell(name, rows.filter((row) => verdict(row) === name).length);
    svg.setAttribute("aria-label", `Photographs of ${label(pair.i)} and ${label(pair.j)} with ${viewer.counted(lines.length, "match", "matches")}`);
    for (const id of ["v-match-previous", "v-match-next"]) at(id).disabled = !lines.length;
  };

  const tell = (name, number) => { at(`v-number-${name}`).textContent = `(${count(number)})`; };

  const capital = (text) => text[0].toUpperCase() + text.slice(1);

  const drawTitle = () => {
    at("v-pair-title").textContent = viewer.pairName(pair.i, pair.j);
    at("v-pair-summary").textContent = capital(viewer.figuresInWords(pair.i, pair.j));
    at("v-pair-i").value = pair.i;
    at("v-pair-j").value = pair.j;
  };

  const drawAll = () => {
    drawTitle();
    drawPhotographs();
    drawLines();
  };

  // --- One match ---------------------------------------------------------------------

  const drawHighlight = () => {
    const row = pointed ?? held;
    marks.setAttribute("class", row === null ? "v-lines" : "v-lines v-dim");
    top.replaceChildren();
    if (row !== null) {
      const { element, from, to } = put(row, mark(row));
      top.append(node("path", { class: "v-halo", d: `M${from}L${to}` }), element);
    }
    drawCard(row);
  };

  const facts = (row) => {
    const a = viewer.arrays, ratio = a.match_ratio[row];
    const having = methods.filter((_, m) => (a.match_methods[row] >> m) & 1).map((method) => method.name);
    return [
      ...(judged ? [["Verdict", verdict(row) === "unknown" ? "not judged by the truth" : verdict(row)], ["Transfer error", pixels(a.match_error[row])]] : []),
      ...(viewer.method ? [[`By ${methods[viewer.method].name}`, change(row)]] : []),
      ...(viewer.knows("match_ratio") ? [["Distance ratio", Number.isFinite(ratio) ? ratio.toFixed(2) : "–"]] : []),
      ...(cameras ? [["Epipolar distance", pixels(a.match_epipolar[row])]] : []),
      ...(viewer.knows("match_probability") ? [["Probability", percent(probability(row))]] : []),
      ["Found by", having.join(", ")],
    ];
  };

  const patch = (f) => {
    const canvas = node("canvas", { width: 192, height: 192, "aria-hidden": "true" });
    viewer.drawPatch(canvas, f);
    const { image, number } = viewer.feature(f);
    return node("figure", { class: "v-patch" }, canvas, node("figcaption", {}, label(image), node("br"), `feature ${number}`));
  };

  const trackLength = (t) => viewer.arrays.track_first[t + 1] - viewer.arrays.track_first[t];
  const trackButton = (t, words) =>
    node("button", { type: "button", onclick: () => viewer.emit("track", { track: t }) }, `${words} (${viewer.counted(trackLength(t), "image")})`);

  // One track for both ends, or one each: the removed match would have joined them.
  const trackButtons = (row) => {
    const [s, t] = ends(row).map(viewer.trackOf);
    if (s >= 0 && s === t) return [trackButton(s, "Follow its track")];
    return [[s, pair.i], [t, pair.j]].filter(([track]) => track >= 0).map(([track, i]) => trackButton(track, `Track in ${label(i)}`));
  };

  const drawCard = (row) => {
    const card = at("v-card");
    const shown = `${row} ${viewer.method} ${lines.length > 0}`;
    if (card.dataset.shown === shown) return; // zooming does not draw the patches again
    card.dataset.shown = shown;
    at("v-picture-help").hidden = row !== null;
    if (row === null) return card.replaceChildren(node("p", { class: "note" }, lines.length ? "No match is chosen." : "There is no match to choose."));
    const list = facts(row).flatMap(([name, value]) => [node("dt", {}, name), node("dd", {}, value)]);
    card.replaceChildren(
      ...ends(row).map(patch),
      node("dl", { class: "v-facts" }, ...list), node("div", { class: "v-buttons" }, ...trackButtons(row)),
    );
  };

  const hold = (row) => {
    held = row;
    pointed = null;
    if (row !== null) ends(row).map(pixel).forEach((at, side) => { if (!within(at, windows[side])) look(side, windows[side].w, at); });
    drawHighlight();
  };

  const step = (by) => {
    if (!lines.length) return;
    const now = lines.findIndex(({ row }) => row === held);
    hold(lines[now < 0 ? (by > 0 ? 0 : lines.length - 1) : (now + by + lines.length) % lines.length].row);
  };

  // --- Nearest match -----------------------------------------------------------------

  const distance = ([x, y], [u, v]) => Math.hypot(x - u, y - v);
  const toSegment = (p, from, to) => {
    const [dx, dy] = [to[0] - from[0], to[1] - from[1]], square = dx * dx + dy * dy || 1;
    const t = Math.max(0, Math.min(1, ((p[0] - from[0]) * dx + (p[1] - from[1]) * dy) / square));
    return distance(p, [from[0] + t * dx, from[1] + t * dy]);
  };
  const least = (measure, limit) => {
    let best = null, least = limit;
    for (const line of lines) {
      if (line.element.classList.contains("v-out")) continue;
      const d = measure(line);
      if (d <= least) [best, least] = [line.row, d];
    }
    return best;
  };

  // Units of the drawing at a place of the window, and how many are a CSS pixel.
  const unitsAt = (x, y) => {
    const point = new DOMPoint(x, y).matrixTransform(svg.getScreenCTM().inverse());
    return [point.x, point.y];
  };
  const unit = () => 1 / svg.getScreenCTM().a;

  // An end near the pointer goes before a line under it, because lines cross.
  const nearest = (event) => {
    const p = unitsAt(event.clientX, event.clientY), reach = (event.pointerType === "mouse" ? 1 : 2) * unit();
    return least(({ from, to }) => Math.min(distance(p, from), distance(p, to)), 8 * reach)
      ?? least(({ from, to }) => toSegment(p, from, to), 5 * reach);
  };

  // --- Zoom and pan ------------------------------------------------------------------

  const sides = [0, 1];
  const image = (side) => images[side ? pair.j : pair.i];
  const zoomed = () => sides.some((side) => windows[side].w < image(side).width * 0.999);

  const see = (side, { x, y, w, h }) => {
    const { width, height } = image(side), inside = (value, most) => Math.max(0, Math.min(most, value));
    windows[side] = { x: inside(x, width - w), y: inside(y, height - h), w, h };
    photographs.querySelector(`[data-side="${side}"]`)?.setAttribute("viewBox", Object.values(windows[side]).join(" "));
  };

  // See a part of this width of one photograph, with a place of it in its middle, or where it
  // was: `share` of the way from the left and the top.
  const look = (side, width, [x, y], [left, up] = [0.5, 0.5]) => {
    const w = Math.max(image(side).width / 40, Math.min(image(side).width, width)), h = (w * image(side).height) / image(side).width;
    see(side, { x: x - left * w, y: y - up * h, w, h });
  };

  // After a change of what is seen.
  const follow = () => {
    svg.classList.toggle("v-zoomed", zoomed());
    for (const line of lines) Object.assign(line, put(line.row, line.element));
    drawHighlight();
  };

  const middleOf = ({ x, y, w, h }) => [x + w / 2, y + h / 2];

  // Zoom both photographs, about the ends of the match that is held, or else their middles.
  const zoomBoth = (factor) => {
    for (const side of sides) look(side, windows[side].w / factor, held === null ? middleOf(windows[side]) : pixel(ends(held)[side]));
    follow();
  };

  const sideAt = ([x, y]) => (narrow() ? y >= boxes[1].y : x >= boxes[1].x) ? 1 : 0;

  // Zoom one photograph about a place of the drawing, which stays there.
  const zoomAt = (factor, place) => {
    const side = sideAt(place), box = boxes[side], part = windows[side];
    const shares = [(place[0] - box.x) / box.w, (place[1] - box.y) / box.h];
    look(side, part.w / factor, [part.x + shares[0] * part.w, part.y + shares[1] * part.h], shares);
    follow();
  };

  // Move what is seen of one photograph by units of the drawing.
  const pan = (side, dx, dy) => {
    const box = boxes[side], part = windows[side];
    see(side, { ...part, x: part.x + (dx * part.w) / box.w, y: part.y + (dy * part.h) / box.h });
  };

  const panBoth = (dx, dy) => {
    for (const side of sides) pan(side, dx * boxes[side].w, dy * boxes[side].h);
    follow();
  };

  const reset = () => {
    for (const side of sides) see(side, whole(image(side)));
    follow();
  };

  const onWheel = (event) => {
    const focused = document.activeElement === svg && (zoomed() || event.deltaY < 0);
    if (!event.ctrlKey && !event.metaKey && !focused) return; // the page scrolls
    event.preventDefault();
    zoomAt(Math.exp(-event.deltaY / 300), unitsAt(event.clientX, event.clientY));
  };

  const pointers = new Map(); // pressed ones, by id
  let moved = false;

  const middle = () => [...pointers.values()].reduce(([x, y], p) => [x + p.x / pointers.size, y + p.y / pointers.size], [0, 0]);
  const spread = () => {
    const [a, b] = [...pointers.values()];
    return b ? Math.hypot(a.x - b.x, a.y - b.y) : 1;
  };

  const onDown = (event) => {
    if (event.button > 0) return;
    if (!pointers.size) moved = false;
    pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
  };

  const onMove = (event) => {
    if (!pointers.has(event.pointerId)) {
      if (event.pointerType === "mouse") pointAt(nearest(event));
      return;
    }
    const [before, wide] = [middle(), spread()], old = pointers.get(event.pointerId);
    if (!moved && pointers.size === 1 && Math.hypot(event.clientX - old.x, event.clientY - old.y) < 4) return;
    moved = true;
    svg.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    const after = middle(), scale = unit();
    pan(sideAt(unitsAt(...before)), (before[0] - after[0]) * scale, (before[1] - after[1]) * scale);
    if (pointers.size === 2 && wide > 0) zoomAt(spread() / wide, unitsAt(...after));
    else follow();
  };

  const onUp = (event) => {
    if (!pointers.delete(event.pointerId) || moved || event.type === "pointercancel") return;
    hold(nearest(event));
  };

  const pointAt = (row) => {
    if (row === pointed) return;
    pointed = row;
    svg.style.cursor = row === null ? "" : "pointer";
    drawHighlight();
  };

  const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  const KEYS = {
    n: () => step(1), p: () => step(-1), "+": () => zoomBoth(1.5), "=": () => zoomBoth(1.5), "-": () => zoomBoth(1 / 1.5), 0: reset,
    Escape: () => hold(null), t: () => at("v-card").querySelector("button")?.click(),
  };

  const onKey = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const act = KEYS[event.key.length === 1 ? event.key.toLowerCase() : event.key], arrow = ARROWS[event.key];
    if (act) act();
    else if (arrow && zoomed()) panBoth(arrow[0] / 8, arrow[1] / 8);
    else return;
    event.preventDefault();
  };

  // --- Which pair --------------------------------------------------------------------

  const open = (i, j) => viewer.emit("pair", { i, j });

  // The next pair with matches, in the order of the images; after the last comes the first.
  const neighbour = (by) => {
    const { pair_i, pair_j } = viewer.arrays, all = pair_i.length;
    if (!all) return;
    const place = (i, j) => i * images.length + j, here = place(pair.i, pair.j);
    let n = 0;
    while (n < all && place(pair_i[n], pair_j[n]) < here) n++;
    const found = n < all && place(pair_i[n], pair_j[n]) === here;
    const other = (by < 0 ? n - 1 : found ? n + 1 : n);
    const to = (other + all) % all;
    open(pair_i[to], pair_j[to]);
  };

  const selected = (changed, other, before) => {
    const i = Number(changed.value), j = Number(other.value);
    open(i, i === j ? before : j); // the same image twice: they change places
  };

  const onPair = ({ i, j, match }) => {
    pair = { i: Math.min(i, j), j: Math.max(i, j), n: viewer.pairIndex(i, j) };
    held = match ?? null;
    pointed = null;
    drawAll();
    if (match !== undefined) at("v-pair").scrollIntoView({ block: "start" });
  };

  // --- Start -------------------------------------------------------------------------

  const tick = (name) => node("label", {}, node("input", { type: "checkbox", id: `v-show-${name}`, checked: true, onchange: drawLines }),
    node("span", {}, `${name} `, node("span", { id: `v-number-${name}` })));

  const colours = () => {
    const known = viewer.knows("match_probability");
    const possible = { verdict: judged, change: true, probability: known, epipolar: cameras };
    at("v-pair-range").hidden = !known;
    at("v-pair-changes").hidden = methods.length < 2;
    return Object.keys(COLOURS).filter((key) => possible[key]);
  };

  const fill = () => {
    const option = (value, text) => node("option", { value }, text);
    for (const id of ["v-pair-i", "v-pair-j"]) at(id).replaceChildren(...images.map((_, i) => option(i, label(i))));
    at("v-pair-changes").append(...CHANGES.map(tick));
    at("v-pair-verdicts").append(...VERDICTS.map(tick));
    at("v-pair-verdicts").hidden = !judged;
    at("v-pair-colour").replaceChildren(...colours().map((key) => option(key, COLOURS[key][0])));
    at("v-pair-colour").value = colour = judged ? "verdict" : cameras ? "epipolar" : "change";
    viewer.chooseMethods(at("v-pair-method"));
    svg.append(photographs, marks, top);
    at("v-filters").open = !narrow(); // a telephone shows the photographs first
    for (const id of ["v-pair-previous", "v-pair-next"]) at(id).disabled = viewer.arrays.pair_i.length < 2;
  };

  const listen = () => {
    at("v-pair-previous").onclick = () => neighbour(-1);
    at("v-pair-next").onclick = () => neighbour(1);
    at("v-pair-i").onchange = () => selected(at("v-pair-i"), at("v-pair-j"), pair.i);
    at("v-pair-j").onchange = () => selected(at("v-pair-j"), at("v-pair-i"), pair.j);
    at("v-pair-colour").onchange = (event) => { colour = event.target.value; drawLines(); };
    for (const id of ["v-pair-low", "v-pair-high"]) at(id).oninput = drawLines;
    at("v-zoom-in").onclick = () => zoomBoth(1.5);
    at("v-zoom-out").onclick = () => zoomBoth(1 / 1.5);
    at("v-zoom-reset").onclick = reset;
    at("v-match-previous").onclick = () => step(-1);
    at("v-match-next").onclick = () => step(1);
    svg.addEventListener("wheel", onWheel, { passive: false });
    svg.addEventListener("keydown", onKey);
    svg.addEventListener("pointerdown", onDown);
    svg.addEventListener("pointermove", onMove);
    for (const name of ["pointerup", "pointercancel"]) svg.addEventListener(name, onUp);
    svg.addEventListener("pointerleave", () => pointAt(null));
    viewer.on("pair", onPair);
    viewer.on("method", () => { drawTitle(); drawLines(); });
    let before = narrow();
    new ResizeObserver(() => {
      if (narrow() === before) return;
      before = narrow();
      drawPhotographs();
      drawLines();
    }).observe(svg.parentElement);
  };

  viewer.ready.then(() => {
    // Without positions there is nothing to draw: the matrix and its table say what is known.
    const drawable = images.length > 1 && (viewer.arrays.feature_x.length > 0 || !viewer.arrays.match_a.length);
    at("v-pair").hidden = at("v-matrix-go").hidden = !drawable;
    if (!drawable) return;
    fill();
    listen();
  });
}
