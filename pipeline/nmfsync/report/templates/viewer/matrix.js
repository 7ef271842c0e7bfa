// The matrix of image pairs on a canvas, its legend, and the same figures as a table.
{
  const { node, count, percent, label } = viewer;
  const at = (id) => document.getElementById(id);
  const canvas = at("v-matrix"), context = canvas.getContext("2d");
  const base = document.createElement("canvas"); // the matrix without marks
  const k = viewer.data.images.length;
  const judged = viewer.data.truth !== "none", compared = viewer.data.methods.length > 1;

  // --- Colours -----------------------------------------------------------------------

  const SHARES = new Set(["share", "estimated"]); // from 0 to 1; the others count matches
  const COLOURS = {
    matches: ["Matches", "--ink"],
    share: ["Share right", "--right"],
    estimated: ["Estimated precision", "--right"],
    kept: ["Kept matches", "--right"],
    removed: ["Removed matches", "--wrong"],
    added: ["Added matches", "--added"],
  };
  const MEANING = {
    matches: "Matches of the method.",
    share: "Right among the judged matches, each direction counted. Grey: the truth judges none.",
    estimated: "Mean probability of the method’s matches to be right. Grey: not known.",
    kept: "Matches of the input that the method keeps.",
    removed: "Matches of the input that the method removes.",
    added: "Matches that the input does not have.",
  };

  let colour = "matches", cursor = [0, 1], hovered = null, place = null;

  // A CSS variable as [red, green, blue].
  const rgb = (name) => {
    context.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(name).trim() || "#888";
    return [1, 3, 5].map((n) => parseInt(context.fillStyle.slice(n, n + 2), 16));
  };
  const mix = (a, b, t) => a.map((value, n) => Math.round(value + t * (b[n] - value)));

  // Colours for 0 ... 1: from wrong over pale to right for shares, else from pale to full.
  const ramp = () => {
    const paper = rgb("--paper"), full = rgb(COLOURS[colour][1]), wrong = rgb("--wrong"), line = rgb("--line");
    if (!SHARES.has(colour)) return (t) => mix(paper, full, 0.12 + 0.88 * t);
    return (t) => (t < 0.5 ? mix(wrong, line, 2 * t) : mix(line, full, 2 * t - 1));
  };

  const largest = () => {
    let most = 0;
    for (let n = 0; n < viewer.arrays.pair_i.length; n++) most = Math.max(most, viewer.figures(n)[colour]);
    return most;
  };

  // Place of a value on the ramp; the root spreads the small counts.
  const position = (value, most) => (SHARES.has(colour) ? value : Math.sqrt(value / most));

  // --- Drawing -----------------------------------------------------------------------

  // One pixel a cell, to be enlarged.
  const cells = () => {
    const image = new ImageData(k, k), paint = ramp(), most = largest(), grey = rgb("--unknown");
    const wash = rgb("--wash"), paper = rgb("--paper");
    const set = (i, j, pixel) => image.data.set([...pixel, 255], 4 * (i * k + j));
    for (let i = 0; i < k; i++) for (let j = 0; j < k; j++) set(i, j, i === j ? paper : wash);
    viewer.arrays.pair_i.forEach((i, n) => {
      const j = viewer.arrays.pair_j[n], value = viewer.figures(n)[colour];
      const known = Number.isFinite(value), empty = !SHARES.has(colour) && value === 0;
      const pixel = empty ? wash : known ? paint(position(value, most)) : mix(wash, grey, 0.45);
      set(i, j, pixel);
      set(j, i, pixel);
    });
    return image;
  };

  const shortened = (text, width) => {
    context.font = "11px sans-serif"; // a canvas forgets it when its size changes
    const letters = [...text];
    for (let n = letters.length; n > 1; n--) {
      const tried = n === letters.length ? text : [...letters.slice(0, Math.ceil(n / 2)), "…", ...letters.slice(letters.length - Math.floor(n / 2) + 1)].join("");
      if (context.measureText(tried).width <= width) return tried;
    }
    return "…";
  };

  // Where the cells are, in CSS pixels: as large as the room allows, 72 at most.
  const layout = () => {
    const room = canvas.parentElement.clientWidth;
    const widest = Math.min(90, room / 4);
    const longest = Math.max(...viewer.data.images.map((_, i) => context.measureText(shortened(label(i), widest)).width));
    const margin = Math.ceil(longest) + 8;
    const cell = Math.min(72, Math.max(room - margin - 2, 60) / k);
    return { room, margin, cell, size: cell * k, every: cell < 14 ? Math.ceil(18 / cell) : 1, widest };
  };

  const drawLabels = (to, { margin, cell, every, widest }) => {
    to.fillStyle = getComputedStyle(canvas).color;
    to.font = "11px sans-serif";
    to.textBaseline = "middle";
    for (let i = 0; i < k; i += every) {
      const text = shortened(label(i), widest), middle = margin + (i + 0.5) * cell;
      to.textAlign = "right";
      to.fillText(text, margin - 5, middle);
      to.save();
      to.translate(middle, margin - 5);
      to.rotate(-Math.PI / 2);
      to.textAlign = "left";
      to.fillText(text, 0, 0);
      to.restore();
    }
  };

  const drawBase = () => {
    place = layout();
    const { margin, size, cell } = place, whole = Math.ceil(margin + size + 2), sharp = window.devicePixelRatio || 1;
    for (const target of [base, canvas]) target.width = target.height = Math.round(whole * sharp);
    canvas.style.width = canvas.style.height = `${whole}px`;
    const small = document.createElement("canvas");
    small.width = small.height = k;
    small.getContext("2d").putImageData(cells(), 0, 0);
    const to = base.getContext("2d");
    to.setTransform(sharp, 0, 0, sharp, 0, 0);
    to.fillStyle = `rgb(${rgb("--paper")})`;
    to.fillRect(0, 0, whole, whole);
    to.imageSmoothingEnabled = false;
    to.drawImage(small, margin, margin, size, size);
    to.strokeStyle = `rgb(${rgb("--paper")})`;
    if (cell >= 8)
      for (let n = 0; n <= k; n++) {
        to.strokeRect(margin + n * cell, margin, 0, size);
        to.strokeRect(margin, margin + n * cell, size, 0);
      }
    drawLabels(to, place);
  };

  const mark = ([i, j], style, lines) => {
    const { margin, cell, size } = place;
    context.strokeStyle = context.fillStyle = style;
    context.lineWidth = 2;
    const across = margin + j * cell, down = margin + i * cell, side = Math.max(cell, 5);
    const left = across + cell / 2 - side / 2, top = down + cell / 2 - side / 2;
    context.strokeRect(left, top, side, side);
    if (!lines) return;
    // From the labels to the cell, so that both images can be read off.
    context.lineWidth = 1;
    context.globalAlpha = 0.6;
    context.strokeRect(margin, down + cell / 2, Math.max(left - margin, 0), 0);
    context.strokeRect(across + cell / 2, margin, 0, Math.max(top - margin, 0));
    context.globalAlpha = 1;
  };

  const drawMarks = () => {
    const sharp = window.devicePixelRatio || 1, ink = getComputedStyle(canvas).color;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.drawImage(base, 0, 0);
    context.setTransform(sharp, 0, 0, sharp, 0, 0);
    const [i, j] = cursor;
    mark([i, j], ink, true);
    mark([j, i], ink, false);
    if (hovered) mark(hovered, `rgb(${rgb("--blue")})`, true);
  };

  // --- Legend ------------------------------------------------------------------------

  const drawScale = () => {
    const bar = at("v-scale"), paint = ramp(), image = new ImageData(256, 1), most = largest();
    for (let n = 0; n < 256; n++) image.data.set([...paint(n / 255), 255], 4 * n);
    bar.getContext("2d").putImageData(image, 0, 0);
    const write = (t) => (SHARES.has(colour) ? `${100 * t} %` : count(most * t * t));
    at("v-scale-numbers").replaceChildren(...[0, 0.5, 1].map((t) => node("span", {}, write(t))));
    bar.parentElement.hidden = !SHARES.has(colour) && most === 0;
    const left = viewer.data.pairs_left_out;
    const none = SHARES.has(colour) || most ? "" : " No pair has any.";
    at("v-scale-words").textContent = MEANING[colour] + none + (left ? ` ${viewer.counted(left, "more pair is", "more pairs are")} not on this page.` : "");
  };

  // --- Words -------------------------------------------------------------------------

  const methodName = () => viewer.data.methods[viewer.method].name;

  // A page without truth, estimates or a second method has no figures of them.
  const estimates = () => viewer.knows("pair_estimated");

  const changes = (figures) => [
    [`Matches of ${methodName()}`, count(figures.matches)],
    ["kept", count(figures.kept)],
    ["removed", count(figures.removed)],
    ["added", count(figures.added)],
  ];

  const facts = (figures) => [
    ["Matches of the input", count(figures.input)],
    ...(viewer.method ? changes(figures) : []),
    ...(estimates() ? [["Estimated precision", percent(figures.estimated)]] : []),
    ...(judged ? [["Right of judged*", rightOf(figures)]] : []),
  ];

  const rightOf = ({ right, judged: all, share }) => (all ? `${count(right)} of ${count(all)} (${percent(share)})` : "none judged");

  const showFigures = () => {
    const [i, j] = hovered || cursor, figures = viewer.figures(viewer.pairIndex(i, j));
    const rows = facts(figures).map(([name, value]) => node("tr", {}, node("th", { scope: "row" }, name), node("td", {}, value)));
    at("v-pair-figures").replaceChildren(
      node("p", { class: "v-name" }, viewer.pairName(i, j)),
      node("table", { class: "v-facts" }, node("tbody", {}, ...rows)),
      ...(judged ? [node("p", { class: "note" }, "* Each direction of a match is judged.")] : []),
    );
  };

  viewer.figuresInWords = (i, j) => {
    const figures = viewer.figures(viewer.pairIndex(i, j));
    if (!figures.input && !figures.matches) return viewer.method ? `no match of the input or ${methodName()}.` : "no match of the input.";
    const truth = judged && figures.judged ? `, right ${rightOf(figures)}` : "";
    const estimate = Number.isFinite(figures.estimated) ? `, estimated precision ${percent(figures.estimated)}` : "";
    const matches = viewer.counted(figures.input, "match", "matches");
    if (viewer.method === 0) return `${matches} of the input${estimate}${truth}.`;
    return `${matches} of the input; ${methodName()} keeps ${count(figures.kept)}, removes ${count(figures.removed)} and adds ${count(figures.added)}${estimate}${truth}.`;
  };

  // --- Mouse and keys ----------------------------------------------------------------

  const cellAt = (event) => {
    const box = canvas.getBoundingClientRect();
    const i = Math.floor((event.clientY - box.top - place.margin) / place.cell);
    const j = Math.floor((event.clientX - box.left - place.margin) / place.cell);
    return i >= 0 && j >= 0 && i < k && j < k && i !== j ? [i, j] : null;
  };

  const hover = (cell) => {
    hovered = cell;
    canvas.style.cursor = cell ? "pointer" : "";
    drawMarks();
    showFigures();
  };

  const open = ([i, j]) => {
    cursor = [i, j];
    viewer.emit("pair", { i, j });
  };

  const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

  // The next cell in this direction, over the diagonal; null at the edge.
  const next = ([i, j], [down, right]) => {
    const cell = [i + down, j + right];
    if (cell[0] === cell[1]) return next(cell, [down, right]);
    return cell.every((n) => n >= 0 && n < k) ? cell : null;
  };

  const ends = { Home: () => [cursor[0], cursor[0] ? 0 : 1], End: () => [cursor[0], cursor[0] === k - 1 ? k - 2 : k - 1] };

  const onKey = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Enter" || event.key === " ") {
      open(cursor);
      toPair();
    } else if (STEPS[event.key] || ends[event.key]) {
      const cell = STEPS[event.key] ? next(cursor, STEPS[event.key]) : ends[event.key]();
      if (cell) open(cell);
    } else return;
    event.preventDefault();
  };

  const toPair = () => {
    const title = at("v-pair-title");
    title.scrollIntoView({ block: "start" });
    title.focus({ preventScroll: true });
  };

  // --- Table -------------------------------------------------------------------------

  const STEP = 50; // rows shown at first, and more at every request
  // Heading; value to sort by; text.
  const counting = (name, key) => [name, (n) => viewer.figures(n)[key], (n) => count(viewer.figures(n)[key])];
  const possibleColumns = () => [
    ["Images", (n) => n, (n) => pairOf(n)],
    counting("Matches", "matches"),
    ...(compared ? [counting("Kept", "kept"), counting("Removed", "removed"), counting("Added", "added")] : []),
    ...(estimates() ? [["Estimated precision", (n) => viewer.figures(n).estimated, (n) => percent(viewer.figures(n).estimated)]] : []),
    ...(judged ? [["Right of judged*", (n) => viewer.figures(n).share, (n) => rightOf(viewer.figures(n))]] : []),
  ];
  const counts = () => (compared ? 5 : 2); // columns before those of shares
  let columns = [], sorted = { column: compared ? 3 : 1, descending: true }, shown = STEP;

  const pairOf = (n) => viewer.pairName(viewer.arrays.pair_i[n], viewer.arrays.pair_j[n]);

  // Unknown values come last, equal ones in the order of the images.
  const order = () => {
    const value = columns[sorted.column][1], sign = sorted.descending ? -1 : 1;
    const keys = Array.from(viewer.arrays.pair_i, (_, n) => value(n));
    const compare = (a, b) => (Number.isNaN(keys[a]) - Number.isNaN(keys[b])) || sign * (keys[a] - keys[b]) || a - b;
    return [...keys.keys()].sort(compare);
  };

  const openRow = (n) => {
    open([viewer.arrays.pair_i[n], viewer.arrays.pair_j[n]]);
    toPair();
  };

  const row = (n) => {
    const button = node("button", { type: "button", class: "v-link" }, pairOf(n));
    const rest = columns.slice(1).map(([, , write]) => node("td", {}, write(n)));
    return node("tr", { "data-pair": n, onclick: () => openRow(n) }, node("th", { scope: "row" }, button), ...rest);
  };

  const heading = ([name], column) => {
    const chosen = sorted.column === column;
    const sort = chosen ? (sorted.descending ? "descending" : "ascending") : "none";
    const sign = node("span", { "aria-hidden": "true" }, chosen ? (sorted.descending ? " ▼" : " ▲") : "");
    const button = node("button", { type: "button", class: "v-link", onclick: () => sortBy(column) }, name, sign);
    return node("th", { scope: "col", "aria-sort": sort }, button);
  };

  // At first the largest number; the estimates and shares from the lowest, which are the doubtful ones.
  const sortBy = (column) => {
    const descending = sorted.column === column ? !sorted.descending : column > 0 && column < counts();
    sorted = { column, descending };
    shown = STEP;
    drawTable();
    at("v-pairs-table").tHead.querySelectorAll("button")[column].focus();
  };

  const markRow = () => {
    const open = String(viewer.pairIndex(...cursor));
    for (const line of at("v-pairs-table").tBodies[0].rows) line.setAttribute("aria-current", line.dataset.pair === open);
  };

  const drawTable = () => {
    if (!at("v-pairs-list").open) return;
    const all = order(), table = at("v-pairs-table");
    table.tHead.replaceChildren(node("tr", {}, ...columns.map(heading)));
    table.tBodies[0].replaceChildren(...all.slice(0, shown).map(row));
    at("v-pairs-count").textContent = `${count(Math.min(shown, all.length))} of ${viewer.counted(all.length, "pair")}${judged ? ". * Each direction of a match is judged." : ""}`;
    at("v-pairs-more").hidden = shown >= all.length;
    markRow();
  };

  const showMore = () => {
    const before = shown;
    shown += STEP;
    drawTable();
    at("v-pairs-table").tBodies[0].rows[before].querySelector("button").focus();
  };

  // --- Start -------------------------------------------------------------------------

  const draw = () => {
    drawBase();
    drawMarks();
    drawScale();
    showFigures();
  };

  // The pair in the address, else the one whose matches the method changes most.
  const first = () => {
    const named = /^(\d+)-(\d+)$/.exec(viewer.addressed("pair") || "");
    const [i, j] = named ? [Number(named[1]), Number(named[2])] : [];
    if (named && i < k && j < k && i !== j) return [i, j];
    let best = -1, most = [-1, -1];
    viewer.arrays.pair_i.forEach((_, n) => {
      const { removed, added, matches } = viewer.figures(n), changed = removed + added;
      if (changed > most[0] || (changed === most[0] && matches > most[1])) [best, most] = [n, [changed, matches]];
    });
    return best < 0 ? [0, 1] : [viewer.arrays.pair_i[best], viewer.arrays.pair_j[best]];
  };

  const onPair = ({ i, j, quiet }) => {
    // A click on the lower half leaves the mark there.
    if (Math.min(...cursor) !== Math.min(i, j) || Math.max(...cursor) !== Math.max(i, j)) cursor = [i, j];
    drawMarks();
    showFigures();
    markRow();
    at("v-matrix-says").textContent = quiet ? "" : `${viewer.pairName(...cursor)}: ${viewer.figuresInWords(...cursor)}`;
    if (!quiet) viewer.remember("pair", `${Math.min(i, j)}-${Math.max(i, j)}`);
  };

  const listen = () => {
    canvas.addEventListener("pointermove", (event) => event.pointerType === "mouse" && hover(cellAt(event)));
    canvas.addEventListener("pointerleave", () => hover(null));
    canvas.addEventListener("click", (event) => { const cell = cellAt(event); if (cell) open(cell); });
    canvas.addEventListener("keydown", onKey);
    at("v-matrix-colour").onchange = (event) => { colour = event.target.value; draw(); };
    at("v-pairs-list").addEventListener("toggle", drawTable);
    at("v-pairs-more").onclick = showMore;
    at("v-matrix-go").onclick = toPair;
    viewer.on("pair", onPair);
    viewer.on("method", () => { draw(); drawTable(); });
    new ResizeObserver(() => place.room !== canvas.parentElement.clientWidth && draw()).observe(canvas.parentElement);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
    window.addEventListener("hashchange", () => viewer.addressed("pair") && openFirst());
  };

  const openFirst = () => {
    const [i, j] = first();
    viewer.emit("pair", { i, j, quiet: true });
    if (viewer.addressed("pair") && !viewer.addressed("track")) at("v-pair").scrollIntoView({ block: "start" });
  };

  const tooFew = () => {
    const text = document.querySelector("#pairs .v-failed");
    text.textContent = "A pair needs two images.";
    text.hidden = false;
  };

  viewer.ready.then(() => {
    if (k < 2) return tooFew();
    document.querySelector("#pairs .v-filled").hidden = false;
    columns = possibleColumns();
    const possible = { share: judged, estimated: estimates(), kept: compared, removed: compared, added: compared };
    const keys = Object.keys(COLOURS).filter((key) => possible[key] !== false);
    at("v-matrix-colour").replaceChildren(...keys.map((key) => node("option", { value: key }, COLOURS[key][0])));
    viewer.chooseMethods(at("v-matrix-method"));
    cursor = first();
    draw();
    listen();
    setTimeout(openFirst); // when all parts of the viewer listen
  });
}
