"use strict";
// What the parts of the viewer share: the data of the page, images, words and events.

const UNKNOWN = 0, RIGHT = 1, WRONG = 2; // verdicts of a match
const NONE = 0xffffffff; // no feature

const viewer = {
  data: JSON.parse(document.getElementById("viewer-data").textContent),
  arrays: {}, // name -> typed array; filled before `ready` is resolved
  ready: null,
  method: 0, // place in `data.methods` of the method that is looked at
};

// A block keeps the names in it to itself.
{
  // --- Data --------------------------------------------------------------------------

  const TYPES = { u8: Uint8Array, u16: Uint16Array, u32: Uint32Array, f32: Float32Array };

  const bytesOf = (base64) => {
    const text = atob(base64);
    const bytes = new Uint8Array(text.length);
    for (let n = 0; n < text.length; n++) bytes[n] = text.charCodeAt(n);
    return bytes;
  };

  const unpack = async (packed) => {
    const stream = new Blob([bytesOf(packed.data)]).stream();
    const buffer = await new Response(stream.pipeThrough(new DecompressionStream("deflate"))).arrayBuffer();
    return new TYPES[packed.type](buffer);
  };

  viewer.ready = (async () => {
    const packed = viewer.data.arrays;
    const names = Object.keys(packed);
    const arrays = await Promise.all(names.map((name) => unpack(packed[name])));
    names.forEach((name, n) => { viewer.arrays[name] = arrays[n]; });
  })();

  // Old browsers cannot decompress; the rest of the page does not need it.
  viewer.ready.catch(() => {
    for (const text of document.querySelectorAll(".v-failed")) text.hidden = false;
  });

  // The place of a method in `data.methods`, and so of its bit in `match_methods`.
  viewer.methodIndex = (key) => viewer.data.methods.findIndex((method) => method.key === key);

  viewer.feature = (f) => {
    const a = viewer.arrays;
    return {
      image: a.feature_image[f], number: a.feature_number[f],
      x: a.feature_x[f], y: a.feature_y[f],
      scale: a.feature_scale[f], orientation: a.feature_orientation[f],
    };
  };

  // The track of a feature: -1 if it has none, or none on this page.
  viewer.trackOf = (f) => {
    if (!viewer.tracksByFeature) {
      const { feature_image: every, track_first: first, track_members: members } = viewer.arrays;
      const tracks = (viewer.tracksByFeature = new Int32Array(every.length).fill(-1));
      for (let t = 0; t + 1 < first.length; t++)
        for (let n = first[t]; n < first[t + 1]; n++) tracks[members[n]] = t;
    }
    return viewer.tracksByFeature[f];
  };

  // The place of a pair of images in the arrays by pair; -1 if it has no match.
  viewer.pairIndex = (i, j) => {
    if (!viewer.pairsByImages) {
      viewer.pairsByImages = new Map();
      const { pair_i, pair_j } = viewer.arrays;
      pair_i.forEach((image, n) => viewer.pairsByImages.set(image * viewer.data.images.length + pair_j[n], n));
    }
    return viewer.pairsByImages.get(Math.min(i, j) * viewer.data.images.length + Math.max(i, j)) ?? -1;
  };

  // Does the page know any value of this array?
  const known = new Map(); // by name
  viewer.knows = (name) => {
    const values = viewer.arrays[name], unknown = values instanceof Uint8Array ? 255 : NaN;
    if (!known.has(name)) known.set(name, values.some((value) => Number.isFinite(value) && value !== unknown));
    return known.get(name);
  };

  // What method m makes of pair n (-1: a pair without matches).
  viewer.figures = (n, m = viewer.method) => {
    if (n < 0) return { input: 0, matches: 0, kept: 0, removed: 0, added: 0, judged: 0, right: 0, share: NaN, estimated: NaN };
    const a = viewer.arrays, row = m * a.pair_i.length + n;
    const input = a.pair_matches[n], matches = a.pair_matches[row], kept = a.pair_kept[row];
    const judged = a.pair_judged[row], right = a.pair_right[row];
    return {
      input, matches, kept, removed: input - kept, added: matches - kept, judged, right,
      share: judged ? right / judged : NaN, estimated: a.pair_estimated[row],
    };
  };

  // --- Images ------------------------------------------------------------------------

  const images = new Map(); // number -> promise

  const load = async (source) => {
    if (!source) return null;
    const picture = new Image();
    picture.src = source;
    await picture.decode();
    return picture;
  };

  // A decoded photograph, which may be smaller than the image: `picture.width / image.width`.
  // It is null where the page has no photograph of the image.
  viewer.image = (i) => {
    if (!images.has(i)) images.set(i, load(viewer.data.images[i].source));
    return images.get(i);
  };

  // Draw the surroundings of a feature into a canvas: as wide as `radius` times the feature's
  // scale on either side, turned so that its orientation points to the right.
  viewer.drawPatch = async (canvas, f, { radius = 3, turned = true } = {}) => {
    canvas.feature = f;
    const feature = viewer.feature(f), size = canvas.width;
    const picture = await viewer.image(feature.image);
    if (canvas.feature !== f) return; // another patch was asked for meanwhile
    const context = canvas.getContext("2d");
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, size, canvas.height);
    if (!picture) return;
    const half = Math.max(radius * feature.scale, 8) || 16; // pixels of the image
    const shrink = picture.width / viewer.data.images[feature.image].width;
    context.translate(size / 2, canvas.height / 2);
    if (turned && Number.isFinite(feature.orientation)) context.rotate((-feature.orientation * Math.PI) / 180);
    context.scale(size / (2 * half * shrink), size / (2 * half * shrink));
    // The centre of the top-left pixel is (0, 0), its corner (-0.5, -0.5).
    context.drawImage(picture, -(feature.x + 0.5) * shrink, -(feature.y + 0.5) * shrink);
  };

  // --- Words -------------------------------------------------------------------------

  viewer.count = (value) => (Number.isFinite(value) ? Math.round(value).toLocaleString("en") : "–");
  viewer.counted = (value, one, many = `${one}s`) => `${viewer.count(value)} ${value === 1 ? one : many}`;
  viewer.percent = (share) => (Number.isFinite(share) ? `${(100 * share).toFixed(1)} %` : "–");
  viewer.pixels = (value) => (Number.isFinite(value) ? `${value.toFixed(1)} px` : "–");
  viewer.label = (i) => viewer.data.images[i].label;
  viewer.pairName = (i, j) => `${viewer.label(i)} – ${viewer.label(j)}`;

  // --- Events ------------------------------------------------------------------------

  const bus = new EventTarget();
  viewer.on = (name, act) => bus.addEventListener(name, (event) => act(event.detail));
  viewer.emit = (name, detail) => bus.dispatchEvent(new CustomEvent(name, { detail }));

  // Fill a <select> with the methods; all such selects and `viewer.method` stay the same.
  viewer.chooseMethods = (select) => {
    select.replaceChildren(...viewer.data.methods.map((method, m) => viewer.node("option", { value: m }, method.name)));
    select.value = viewer.method;
    select.onchange = () => viewer.emit("method", { method: Number(select.value) });
    viewer.on("method", ({ method }) => { select.value = method; });
  };
  viewer.on("method", ({ method }) => { viewer.method = method; });

  // --- The address: #pair=3-7&track=12 -----------------------------------------------

  const address = () => new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : "");
  viewer.addressed = (name) => address().get(name);
  viewer.remember = (name, value) => {
    const open = address();
    open.set(name, value);
    history.replaceState(null, "", `#${open}`);
  };

  // --- Elements ----------------------------------------------------------------------

  const SVG = ["svg", "g", "line", "circle", "image", "path", "text", "title", "rect", "polyline"];

  // Make an element: node("button", { type: "button", class: "x", onclick: f }, "text", child).
  viewer.node = (name, attributes = {}, ...children) => {
    const element = SVG.includes(name) ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (typeof value === "function") element[key] = value;
      else if (value !== false && value !== null && value !== undefined) element.setAttribute(key, value === true ? "" : value);
    }
    element.append(...children);
    return element;
  };

  const chosen = viewer.methodIndex(viewer.data.tracks);
  viewer.method = chosen >= 0 ? chosen : Math.min(1, viewer.data.methods.length - 1);
}
