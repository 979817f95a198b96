// SPDX-License-Identifier: Apache-2.0
// What the page draws: bars of classes, curves, numbers, and a stream as it goes by.

const make = (tag, attributes = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === "") continue;
    if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
};

const shade = (part) => {
  const t = Math.max(0, Math.min(1, part));
  return `hsl(${260 - 210 * t} ${60 + 30 * t}% ${6 + 60 * t}%)`;
};
const SHADES = Array.from({ length: 256 }, (_, i) => shade(i / 255));

/** Real numbers as people read them. */
const number = (value) => (Number.isInteger(value) ? String(value) : value.toPrecision(4));

function bars(tensor, values, labels) {
  const MOST = 12;
  const order = [...values.keys()];
  if (order.length > MOST) order.sort((a, b) => values[b] - values[a]);
  const best = values.reduce((found, value, at) => (value > values[found] ? at : found), 0);
  const [low, high] = tensor.range;
  return make("ul", { class: "bars" }, ...order.slice(0, MOST).map((at) => {
    const kind = at === best ? "best" : "", name = labels?.[at] ?? String(at);
    return make("li", {},
      make("span", { class: kind }, name),
      make("meter", { max: high, min: low, value: values[at], ariaLabel: name }),
      make("span", { class: `number ${kind}` }, values[at].toFixed(3)));
  }));
}

/** Many numbers as a line. */
function curve(values, [low, high], name) {
  const canvas = make("canvas", { width: 700, height: 120, class: "time", role: "img", ariaLabel: `${name} as a curve` });
  const g = canvas.getContext("2d");
  g.strokeStyle = "#88ffdd";
  g.beginPath();
  values.forEach((value, at) => g.lineTo((at / (values.length - 1)) * 700, 115 - ((value - low) / (high - low)) * 110));
  g.stroke();
  return canvas;
}

function numbers(values) {
  const shown = [...values.slice(0, 64)].map(number).join(", ");
  return make("p", { class: "note" }, values.length > 64 ? `${shown}, and ${values.length - 64} more` : shown);
}

/** A stream: samples, the front end's bands, scores, decisions; time goes to the left. */
class Timeline {
  constructor(model) {
    this.model = model;
    this.classes = isClasses(model.outputs[0]) && model.outputs[0].length <= 16 ? model.outputs[0].length : 0;
    const height = 120 + (model.facts.bands ? 170 : 0) + 18 * this.classes + 10;
    this.canvas = make("canvas", { width: 1000, height, class: "time", role: "img", ariaLabel: "the stream: samples, spectrum, scores and decisions over time" });
    this.context = this.canvas.getContext("2d");
    this.asked = false;
    new ResizeObserver(() => this.redraw()).observe(this.canvas);
    this.clear();
  }

  clear() {
    this.columns = [];
    this.redraw();
  }

  add(column) {
    this.columns.push(column);
    if (this.columns.length > 500) this.columns.shift();
    this.redraw();
  }

  redraw() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => { this.asked = false; this.draw(); });
  }

  draw() {
    const { context: g, canvas } = this, left = 84, step = 2.5;
    if (canvas.clientWidth > 0 && canvas.width !== canvas.clientWidth) canvas.width = canvas.clientWidth;
    const { width, height } = canvas, columns = this.columns.slice(-Math.floor((width - left) / step));
    const bandsTop = 120, scoresTop = this.model.facts.bands ? 290 : 120;
    g.fillStyle = "#101418";
    g.fillRect(0, 0, width, height);
    columns.forEach((one, i) => this.#column(one, left + i * step, step, bandsTop, scoresTop));
    g.font = "12px system-ui, sans-serif";
    g.fillStyle = "#b9c6d2";
    g.fillText(this.model.facts.kind === "sound" ? "samples" : "values", 6, 64);
    if (this.model.facts.bands) g.fillText("bands", 6, bandsTop + 85);
    for (let k = 0; k < this.classes; k++) g.fillText((this.model.facts.labels?.[k] ?? String(k)).slice(0, 11), 6, scoresTop + 18 * k + 13);
    columns.forEach((one, i) => {
      if (!one.decision) return;
      const x = left + (i + 1) * step;
      g.fillStyle = "#ffffff";
      g.fillRect(x, 0, 1, height);
      g.fillText(`${one.decision.label} ${one.seconds.toFixed(2)} s`, Math.min(x + 4, width - 90), 13);
    });
  }

  #column({ low, high, bands, scores }, x, step, bandsTop, scoresTop) {
    const g = this.context;
    g.fillStyle = "#88ffdd";
    g.fillRect(x, 60 - high * 55, step, Math.max(1, (high - low) * 55));
    (bands ?? []).forEach((code, b) => {
      const tall = 160 / bands.length;
      g.fillStyle = SHADES[(code + 128) & 255];
      g.fillRect(x, bandsTop + 160 - (b + 1) * tall, step + 0.5, tall + 0.5);
    });
    for (let k = 0; scores && k < this.classes; k++) {
      g.fillStyle = SHADES[Math.round(255 * scores[k])];
      if (scores[k] > 0.02) g.fillRect(x, scoresTop + 18 * k + 16 - 15 * scores[k], step + 0.5, 15 * scores[k]);
    }
  }
}
