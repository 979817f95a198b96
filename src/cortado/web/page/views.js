// SPDX-License-Identifier: Apache-2.0
// Which views an output has by its shape, and what each of them draws: classes, masks, heat maps, boxes, numbers. The
// first is the page's own choice. docs/web.md says which shapes are taken as what.

const MOST_CHANNELS = 32; // that have a heat map each
const MOST_NAMED = 16; // classes of a mask with a line in its legend
const MOST_BOXES = 100;

/** The colour of a class: hues a golden angle apart, in three shades. */
function classColour(index) {
  const hue = (index * 137.508) % 360, light = [0.55, 0.4, 0.7][Math.floor(index / 8) % 3];
  const part = (n) => { const k = (n + hue / 30) % 12; return Math.round(255 * (light - 0.75 * Math.min(light, 1 - light) * Math.max(-1, Math.min(k - 3, 9 - k, 1)))); };
  return [part(0), part(8), part(4)];
}
const heat = (part) => [255 * part, 90 + 100 * (1 - Math.abs(2 * part - 1)), 255 * (1 - part)];
const css = (rgb) => `rgb(${rgb.map(Math.round).join(", ")})`;

const isClasses = (tensor) => tensor.length > 1 && tensor.length === Math.max(...tensor.modelShape);

/** Channels and size of an output that has a value for each place of a picture; of integers that are no codes, one
 * channel that holds the number of the class. */
function areaOf(tensor) {
  const sizes = tensor.modelShape, [height, width] = sizes.slice(-2);
  if (sizes[0] !== 1 || sizes.length < 3 || sizes.length > 4 || height < 2 || width < 2) return null;
  const isIndices = !tensor.isCodes && tensor.dtype.startsWith("int");
  if (sizes.length === 3) return isIndices ? { channels: 1, height, width, isIndices } : null;
  return { channels: sizes[1], height, width, isIndices: isIndices && sizes[1] === 1 };
}

/** A canvas with one colour for each place. */
function painted({ width, height }, name, colour) {
  const canvas = make("canvas", { width, height, class: "seen", ariaLabel: name, role: "img" });
  const image = new ImageData(width, height);
  for (let at = 0; at < width * height; at++) image.data.set([...colour(at), 255], 4 * at);
  canvas.getContext("2d").putImageData(image, 0, 0);
  canvas.style.width = `${Math.max(width, Math.min(320, width * 16))}px`;
  return canvas;
}

/** The class of each place: the channel with the largest value, the first of several. */
function classesAt(area, values) {
  const places = area.height * area.width;
  return Array.from({ length: places }, (_, at) => {
    if (area.isIndices) return values[at];
    let best = 0;
    for (let c = 1; c < area.channels; c++) if (values[c * places + at] > values[best * places + at]) best = c;
    return best;
  });
}

function mask(tensor, area, values, labels) {
  const found = classesAt(area, values), counts = new Map();
  for (const one of found) counts.set(one, (counts.get(one) ?? 0) + 1);
  const colours = new Map([...counts.keys()].map((index) => [index, classColour(index)]));
  const order = [...counts.keys()].sort((a, b) => counts.get(b) - counts.get(a) || a - b);
  const legend = make("ul", { class: "legend" }, ...order.slice(0, MOST_NAMED).map((index) => {
    const swatch = make("span", { class: "swatch" });
    swatch.style.background = css(colours.get(index));
    return make("li", {}, swatch, `${labels?.[index] ?? index}: ${((100 * counts.get(index)) / found.length).toFixed(1)} %`);
  }));
  return { over: painted(area, `${tensor.name} as a mask of classes`, (at) => colours.get(found[at])), below: [legend] };
}

function heatMap(tensor, area, values, channel) {
  const [low, high] = tensor.range, from = channel * area.height * area.width;
  const over = painted(area, `${tensor.name} as a heat map`, (at) => heat((values[from + at] - low) / (high - low)));
  const scale = painted({ width: 128, height: 8 }, "the colours of the heat map", (at) => heat((at % 128) / 127));
  return { over, below: [make("div", { class: "legend" }, make("span", {}, number(low)), scale, make("span", {}, number(high)))] };
}

/** Values as a picture beside the one that was given: what an autoencoder makes of it. */
function asPicture(tensor, area, values) {
  const [low, high] = tensor.range, places = area.height * area.width;
  const part = (channel, at) => (255 * (values[(channel % area.channels) * places + at] - low)) / (high - low);
  return { over: null, below: [painted(area, `${tensor.name} as a picture`, (at) => [0, 1, 2].map((c) => part(c, at)))] };
}

// ---- boxes -----------------------------------------------------------------------------------------------------------

const FORMS = {
  "left, top, right, bottom": ([a, b, c, d]) => [a, b, c, d],
  "top, left, bottom, right": ([a, b, c, d]) => [b, a, d, c],
  "centre x, y, width, height": ([x, y, w, h]) => [x - w / 2, y - h / 2, x + w / 2, y + h / 2],
  "left, top, width, height": ([x, y, w, h]) => [x, y, x + w, y + h],
};
const [CORNERS, , CENTRE] = Object.keys(FORMS);
const UNITS = ["0 to 1", "pixels"];

/** The rows of boxes in an output, and the output that has their scores (its own columns behind the box, or another
 * output with as many rows); null where there are none. */
function boxesOf(outputs, at) {
  const sizes = outputs[at].modelShape, batched = sizes.length === 3 && sizes[0] === 1;
  if (!batched && sizes.length !== 2) return null;
  const [count, width] = sizes.slice(-2), isAlone = !batched && count === 1;
  if (width < 4 || (width > 4 && isAlone)) return null;
  if (width > 4) return { count, width, scores: at, first: 4, columns: width, classes: width - 4, sure: count > 1 };
  const scores = outputs.findIndex((one, i) => i !== at && one.length % count === 0 && (count === 1 || one.modelShape.find((size) => size !== 1) === count));
  const classes = scores < 0 ? 0 : outputs[scores].length / count;
  return { count, width, scores, first: 0, columns: classes, classes, sure: count > 1 && scores >= 0 };
}

const overlap = (a, b) => {
  const side = (low, high) => Math.max(0, Math.min(a[high], b[high]) - Math.max(a[low], b[low]));
  const size = (one) => (one.right - one.left) * (one.bottom - one.top), both = side("left", "right") * side("top", "bottom");
  return both / (size(a) + size(b) - both || 1);
};

/** Boxes in parts of the picture, the best first: those with a score of at least `least` that overlap no better one of
 * their class by more than `most`. */
function decodeBoxes(found, values, scores, { form, unit, least, most }, image) {
  const [across, down] = unit === "pixels" ? [image.width, image.height] : [1, 1], boxes = [];
  for (let row = 0; row < found.count; row++) {
    const of = (k) => (found.classes ? scores[row * found.columns + found.first + k] : 1);
    let index = 0;
    for (let k = 1; k < found.classes; k++) if (of(k) > of(index)) index = k;
    if (of(index) < least) continue;
    const [left, top, right, bottom] = FORMS[form](values.slice(row * found.width, row * found.width + 4));
    boxes.push({ row, index, score: of(index), left: left / across, top: top / down, right: right / across, bottom: bottom / down });
  }
  boxes.sort((a, b) => b.score - a.score || a.row - b.row);
  const kept = [];
  for (const one of boxes) {
    if (kept.length < MOST_BOXES && !kept.some((better) => better.index === one.index && overlap(better, one) > most)) kept.push(one);
  }
  return kept;
}

/** Frames with the class and the score, fine enough for lines and letters. */
function framed(boxes, name, { width, height }, nameOf) {
  const scale = Math.max(1, Math.ceil(480 / width));
  const canvas = make("canvas", { width: width * scale, height: height * scale, class: "frames", ariaLabel: `${name} as boxes`, role: "img" });
  const g = canvas.getContext("2d");
  Object.assign(g, { lineWidth: 2, font: "14px system-ui, sans-serif", textBaseline: "top" });
  for (const one of [...boxes].reverse()) { // the best on top
    const [left, right] = [one.left, one.right].map((x) => Math.round(x * canvas.width));
    const [top, bottom] = [one.top, one.bottom].map((y) => Math.round(y * canvas.height));
    const text = `${nameOf(one.index)} ${one.score.toFixed(2)}`;
    g.strokeStyle = g.fillStyle = css(classColour(one.index));
    g.strokeRect(left, top, right - left, bottom - top);
    g.fillRect(left - 1, top - 17, g.measureText(text).width + 8, 17);
    g.fillStyle = "#000";
    g.fillText(text, left + 3, top - 15);
  }
  return canvas;
}

function boxView(model, at, found, redraw) {
  const { image, labels } = model.facts, tensor = model.outputs[at];
  const chosen = { form: found.first ? CENTRE : CORNERS, unit: tensor.range[1] <= 2 ? "0 to 1" : "pixels", least: 0.5, most: 0.5 };
  const choice = (name, key, options) => make("label", {}, `${name} `, chooser(`${key}-${at}`, options, chosen[key], (value) => { chosen[key] = value; redraw(); }));
  const bound = (name, key) => {
    const field = make("input", { type: "number", id: `${key}-${at}`, min: "0", max: "1", step: "0.05", value: String(chosen[key]) });
    field.addEventListener("change", () => { chosen[key] = Number(field.value); redraw(); });
    return make("label", {}, `${name} `, field);
  };
  const nameOf = (index) => (labels?.length === found.columns ? labels[index + found.first] : labels?.length === found.classes ? labels[index] : null) ?? String(index);
  const draw = (results) => {
    const boxes = (cortado.boxes = decodeBoxes(found, results[at].values, results[found.scores]?.values, chosen, image));
    const below = boxes.map((one) => `${nameOf(one.index)} ${one.score.toFixed(2)}`).join(", ");
    return { over: framed(boxes, tensor.name, image, nameOf), below: [make("p", { class: "note" }, below || "No box has that score.")] };
  };
  return { name: "boxes", draw, isLines: true, controls: [choice("numbers are", "form", Object.keys(FORMS)), choice("in", "unit", UNITS), bound("score at least", "least"), bound("overlap at most", "most")] };
}

// ---- the choice ------------------------------------------------------------------------------------------------------

function chooser(id, options, chosen, changed) {
  const select = make("select", { id }, ...options.map((one) => make("option", {}, one)));
  select.selectedIndex = options.indexOf(chosen);
  select.addEventListener("change", () => changed(options[select.selectedIndex]));
  return select;
}

function viewsOf(model, at, redraw) {
  const tensor = model.outputs[at], { labels, kind } = model.facts, area = areaOf(tensor), found = [];
  const boxes = kind === "image" && !area ? boxesOf(model.outputs, at) : null;
  const add = (name, draw) => found.push({ name, draw: (results) => draw(results[at].values), controls: [] });
  if (boxes?.sure) found.push(boxView(model, at, boxes, redraw));
  if (isClasses(tensor)) add("classes", (values) => ({ over: null, below: [bars(tensor, values, labels)] }));
  if (area && (area.isIndices || area.channels > 1)) add("mask", (values) => mask(tensor, area, values, labels));
  for (let c = 0; area && !area.isIndices && c < Math.min(area.channels, MOST_CHANNELS); c++) {
    add(area.channels === 1 ? "heat map" : `heat map of ${labels?.length === area.channels ? labels[c] : c}`, (values) => heatMap(tensor, area, values, c));
  }
  if (area && [1, 3].includes(area.channels)) add("picture", (values) => asPicture(tensor, area, values));
  if (boxes && !boxes.sure) found.push(boxView(model, at, boxes, redraw));
  if (tensor.length > 64) add("curve", (values) => ({ over: null, below: [curve(values, tensor.range, tensor.name)] }));
  add("numbers", (values) => ({ over: null, below: [numbers(values)] }));
  return found;
}

/** One output: its view, what chooses another, and where it is drawn. */
class Shown {
  constructor(model, at, picture) {
    this.picture = picture;
    this.views = viewsOf(model, at, () => this.draw());
    this.view = this.views[0];
    this.controls = make("div", { class: "tools" });
    this.body = make("div");
    this.over = null;
    this.opacity = make("input", { type: "range", id: `opacity-${at}`, min: "0", max: "1", step: "0.05", ariaLabel: "opacity of the map" });
    this.opacity.value = "0.5";
    this.opacity.addEventListener("input", () => this.draw());
    const names = this.views.map(({ name }) => name);
    this.chooser = make("label", {}, "Show as ", chooser(`view-${at}`, names, names[0], (name) => { this.view = this.views[names.indexOf(name)]; this.choose(); this.draw(); }));
    this.title = model.outputs.length > 1 ? [make("h3", {}, model.outputs[at].name)] : [];
    this.choose();
  }

  choose() {
    this.controls.replaceChildren(this.chooser, ...this.view.controls);
    this.over?.remove();
    this.over = null;
  }

  draw(results = this.results) {
    this.results = results;
    if (!results) return;
    const { over, below } = this.view.draw(results);
    const old = this.over;
    this.over = over && this.picture ? this.picture.cover(over, this.view.isLines ? 1 : Number(this.opacity.value)) : null;
    old?.remove();
    const slider = this.over && !this.view.isLines ? [make("label", {}, "hides ", this.opacity)] : [];
    this.body.replaceChildren(...(over && !this.over ? [over] : []), ...below, ...slider);
  }

  get parts() {
    return [...this.title, ...(this.views.length > 1 ? [this.controls] : []), this.body];
  }
}

/** All outputs; on a page for pictures, maps and boxes lie over the picture. */
function showResults(model, results, picture = null) {
  if (!model.shown) {
    model.shown = model.outputs.map((_, at) => new Shown(model, at, picture));
    document.getElementById("results").replaceChildren(...model.shown.flatMap((one) => one.parts));
  }
  model.shown.forEach((one) => one.draw(results));
}
