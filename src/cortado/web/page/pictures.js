// SPDX-License-Identifier: Apache-2.0
// Pictures as the model takes them: the sensor's own lines where a camera is in front of it, else the input's values.

/** Lines of a sensor of RGBA pixels. */
function sensorBytes(rgba, format) {
  const pixels = rgba.length / 4, bytes = [];
  const luma = (r, g, b) => (77 * r + 150 * g + 29 * b) >> 8;
  const five = (a, g, c) => { const word = ((a >> 3) << 11) | ((g >> 2) << 5) | (c >> 3); bytes.push(word & 255, word >> 8); };
  for (let at = 0; at < pixels; at++) {
    const [r, g, b] = rgba.subarray(4 * at, 4 * at + 3);
    if (format === "rgb888") bytes.push(r, g, b);
    else if (format === "bgr888") bytes.push(b, g, r);
    else if (format === "grey8") bytes.push(luma(r, g, b));
    else if (format === "rgb565") five(r, g, b);
    else if (format === "bgr565") five(b, g, r);
    else {
      const y = 16 + ((66 * r + 129 * g + 25 * b + 128) >> 8);
      bytes.push(y, at % 2 ? 128 + ((112 * r - 94 * g - 18 * b + 128) >> 8) : 128 + ((-38 * r - 74 * g + 112 * b + 128) >> 8));
    }
  }
  return Uint8Array.from(bytes);
}

/** The values of black and white that people use, and that are nearest to what the input's codes hold; else those
 * themselves. --input-format with --mean and --std says it exactly. */
function blackAndWhite([low, high]) {
  const known = [[0, 1], [-1, 1], [-0.5, 0.5], [0, 255], [-0.42, 2.82], [-2.1, 2.6]];
  const far = ([black, white]) => (Math.abs(black - low) + Math.abs(white - high)) / (high - low);
  const nearest = known.reduce((best, one) => (far(one) < far(best) ? one : best));
  return far(nearest) < 0.5 ? nearest : [low, high];
}

/** Real numbers of an image input. */
function imageValues(rgba, channels, [low, high]) {
  const pixels = rgba.length / 4;
  const found = new Float32Array(channels * pixels);
  for (let at = 0; at < pixels; at++) {
    const [r, g, b] = rgba.subarray(4 * at, 4 * at + 3);
    const parts = channels === 1 ? [(0.299 * r + 0.587 * g + 0.114 * b) / 255] : [r / 255, g / 255, b / 255];
    parts.forEach((part, c) => { found[c * pixels + at] = low + part * (high - low); });
  }
  return found;
}

/** A canvas of the size that the model or its camera sees, and what is drawn or shown on it. */
class Picture {
  constructor(model, changed) {
    const { camera, image } = model.facts;
    Object.assign(this, { model, camera, changed, channels: image.channels });
    this.width = camera?.width ?? image.width;
    this.height = camera?.height ?? image.height;
    this.canvas = make("canvas", { width: this.width, height: this.height, class: "seen", tabIndex: 0, role: "img", ariaLabel: "what the model sees" });
    this.canvas.style.width = `${Math.max(this.width, Math.min(320, this.width * Math.ceil(280 / this.width)))}px`;
    this.stack = make("div", { class: "stack" }, this.canvas);
    this.context = this.canvas.getContext("2d", { willReadFrequently: true });
    this.ends = blackAndWhite(model.inputs[0].range);
    this.clear();
  }

  clear() {
    this.context.fillStyle = "#000";
    this.context.fillRect(0, 0, this.width, this.height);
  }

  /** Real numbers of the model's input as a picture. */
  paint(values) {
    const image = new ImageData(this.width, this.height), [low, high] = this.ends, area = this.width * this.height;
    for (let at = 0; at < area; at++) {
      const parts = [0, 1, 2].map((c) => (255 * (values[(c % this.channels) * area + at] - low)) / (high - low));
      image.data.set([...parts, 255], 4 * at);
    }
    this.context.putImageData(image, 0, 0);
  }

  /** The middle of a picture, as large as it can be. */
  show(source, width, height) {
    const scale = Math.max(this.width / width, this.height / height);
    this.context.imageSmoothingQuality = "high";
    this.context.drawImage(source, (this.width - width * scale) / 2, (this.height - height * scale) / 2, width * scale, height * scale);
    this.changed();
  }

  /** Lays a canvas over what the model sees of the picture: all of it, or the crop of the camera. */
  cover(canvas, opacity) {
    const { x, y, width, height } = this.camera?.crop ?? { x: 0, y: 0, width: this.width, height: this.height };
    const part = (value, of) => `${(100 * value) / of}%`;
    canvas.classList.add("over");
    Object.assign(canvas.style, { left: part(x, this.width), top: part(y, this.height), width: part(width, this.width), height: part(height, this.height), opacity });
    this.stack.append(canvas);
    return canvas;
  }

  /** Strokes of a pointer, as wide as a digit's on a form. */
  drawable() {
    const at = (event) => {
      const box = this.canvas.getBoundingClientRect();
      return [(event.clientX - box.left) / box.width * this.width, (event.clientY - box.top) / box.height * this.height];
    };
    let last = null;
    this.canvas.addEventListener("pointerdown", (event) => { last = at(event); this.canvas.setPointerCapture(event.pointerId); });
    this.canvas.addEventListener("pointermove", (event) => { if (last) { const next = at(event); this.stroke(last, next); last = next; } });
    for (const name of ["pointerup", "pointercancel"]) this.canvas.addEventListener(name, () => { last = null; });
  }

  stroke(from, to) {
    const g = this.context;
    Object.assign(g, { strokeStyle: "#fff", lineWidth: Math.max(1.5, this.width / 12), lineCap: "round" });
    g.beginPath();
    g.moveTo(...from);
    g.lineTo(...to);
    g.stroke();
    this.changed();
  }

  inputs() {
    const rgba = this.context.getImageData(0, 0, this.width, this.height).data;
    return [this.camera ? sensorBytes(rgba, this.camera.format) : imageValues(rgba, this.channels, this.ends)];
  }
}
