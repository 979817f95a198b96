// SPDX-License-Identifier: Apache-2.0
// The page of a compiled model: it looks at what the model takes, and offers what fits.
"use strict";

const facts = JSON.parse(document.getElementById("facts").textContent);
const assets = JSON.parse(document.getElementById("assets").textContent);
const bytesOf = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
const typed = (text, dtype) => new TYPES[dtype](bytesOf(text).buffer);
const byId = (id) => document.getElementById(id);
const cortado = (window.cortado = { facts, ready: false, error: null, heard: [], hops: [], scores: [], compared: null });

const say = (text, bad = false) => { byId("say").textContent = text; byId("say").className = bad ? "bad" : ""; };
const button = (text, action, id = "") => make("button", { type: "button", id, onclick: () => guarded(action) }, text);

async function guarded(action) {
  try {
    await action();
  } catch (error) {
    cortado.error = error.name;
    say(REFUSALS[error.name] ?? `${error.name}: ${error.message}`, true);
  }
}

const REFUSALS = {
  NotAllowedError: "The browser denied access. Allow it next to the page's address, then press the button again.",
  NotFoundError: "No such device was found. Open a file, or run the recorded example.",
  NotReadableError: "Another program is using the device.",
  NoDevices: "This page can't use devices: browsers allow it on https, on localhost and from a file.",
  NoSound: "The browser can't play sound. Is an output device connected?",
};
const refusal = (name) => Object.assign(new Error(REFUSALS[name]), { name });

async function device(wanted) {
  if (!navigator.mediaDevices) throw refusal("NoDevices");
  return navigator.mediaDevices.getUserMedia(wanted);
}

let running = null; // what stops the microphone, the camera or the sensor
async function stop() {
  const ends = running;
  running = null;
  if (ends) await ends();
  if (byId("stop")) byId("stop").disabled = true;
}
function runs(ends) {
  running = ends;
  byId("stop").disabled = false;
}

const fileButton = (text, accept, take) => {
  const input = make("input", { type: "file", accept, onchange: () => guarded(() => take(input.files[0])) });
  const dropped = (event) => { event.preventDefault(); document.body.classList.remove("drop"); };
  addEventListener("dragover", (event) => { event.preventDefault(); document.body.classList.add("drop"); });
  addEventListener("dragleave", () => document.body.classList.remove("drop"));
  addEventListener("drop", (event) => { dropped(event); if (event.dataTransfer.files[0]) guarded(() => take(event.dataTransfer.files[0])); });
  cortado.open = (file) => guarded(() => take(file));
  return make("label", { class: "file" }, text, input);
};

// ---- streams ---------------------------------------------------------------------------------------------------------

function stream(model) {
  const sound = facts.kind === "sound", tensor = model.inputs[0], timeline = new Timeline(model);
  const length = facts.rowBytes / tensor.type.BYTES_PER_ELEMENT;
  const rate = sound ? make("input", { type: "number", value: String(facts.rate), min: "1000", max: "192000", id: "rate", ariaLabel: "samples a second" }) : null;
  let count = 0;
  const perSecond = () => (sound ? Number(rate.value) / length : facts.rate);
  const clear = () => {
    model.reset();
    timeline.clear();
    count = 0;
    Object.assign(cortado, { heard: [], hops: [], scores: [], error: null });
    byId("heard").replaceChildren();
  };
  const row = (values, codes = null) => { // of samples: a hop
    const given = sound && tensor.isCodes ? Float32Array.from(values, (value) => value / 32768) : values;
    const results = model.push(codes ?? given), decision = results && model.decision(), seconds = ++count / perSecond();
    const scale = sound ? 32768 : Math.max(1e-9, ...values.map(Math.abs));
    const [least, most] = model.outputs[0].range;
    timeline.add({
      low: Math.min(...values) / scale, high: Math.max(...values) / scale, bands: model.bands(), decision, seconds,
      scores: results && Array.from(results[0].values, (value) => (value - least) / (most - least)),
    });
    if (cortado.hops.length < 3000) {
      cortado.hops.push(Array.from(values));
      if (results) cortado.scores.push(Array.from(results[0].codes));
    }
    if (results && count % 5 === 0) showResults(model, results);
    if (!decision) return;
    cortado.heard.push({ label: decision.label, seconds });
    byId("heard").append(make("span", { class: "chip" }, `${decision.label} ${seconds.toFixed(2)} s`));
  };
  const listen = (samples) => {
    clear();
    const begin = performance.now();
    for (let at = 0; at + length <= samples.length; at += length) row(Array.from(samples.subarray(at, at + length)));
    const words = cortado.heard.length ? `; decided ${cortado.heard.length} times` : "";
    say(`${(samples.length / Number(rate.value)).toFixed(2)} s of sound${words}; ${((performance.now() - begin) / Math.max(1, count)).toFixed(2)} ms a push here.`);
  };
  const clips = facts.recordings.map(({ name, rate: its }, i) => button(name, async () => {
    await stop();
    rate.value = String(its);
    listen(typed(assets.recordings[i], "int16"));
  }, `recording-${i}`));
  if (sound) {
    byId("controls").append(
      button("Microphone", () => microphone(Number(rate.value), length, clear, row), "microphone"), ...clips,
      fileButton("Sound file", "audio/*,.wav", async (file) => { await stop(); listen(await samplesOf(file, Number(rate.value))); }),
      button("Stop", stop, "stop"), make("label", { for: "rate" }, "samples a second"), rate);
    document.addEventListener("visibilitychange", () => timeline.redraw());
  } else {
    byId("controls").append(...motion(length, clear, row), button("Stop", stop, "stop"));
  }
  byId("stop").disabled = true;
  byId("stage").append(timeline.canvas);
  say(sound ? "Press a button, or drop a sound file on the page." : "Move a slider, or press a button.");
}

async function microphone(rate, length, clear, row) {
  await stop();
  clear();
  const context = new AudioContext({ sampleRate: rate });
  try {
    // What browsers do to voices for calls would change what the model hears.
    const plain = { channelCount: 1, echoCancellation: false, noiseSuppression: false, autoGainControl: false };
    const stream = await device({ audio: plain });
    // A blob's address has no origin in a page from a file, and is refused there; this one is not.
    await context.audioWorklet.addModule(`data:text/javascript;base64,${btoa(assets.worklet)}`);
    const node = new AudioWorkletNode(context, "cortado-hops", { channelCount: 1, channelCountMode: "explicit", processorOptions: { rate, length } });
    node.port.onmessage = ({ data }) => row(Array.from(data));
    const source = context.createMediaStreamSource(stream);
    source.connect(node);
    if (context.state !== "running") await inTime(context.resume(), "NoSound");
    const [track] = stream.getAudioTracks();
    cortado.track = track.getSettings();
    runs(async () => {
      node.port.postMessage("stop");
      source.disconnect();
      stream.getTracks().forEach((one) => one.stop());
      await context.close();
      say("Stopped.");
    });
    track.onended = () => guarded(async () => { await stop(); say("The microphone was disconnected.", true); });
    say(`Listening: ${track.label || "microphone"}, ${cortado.track.sampleRate ?? "unknown"} samples a second, the model ${rate}.`);
  } catch (error) {
    await context.close();
    throw error;
  }
}

/** Without an output device some browsers never begin, and never say so. */
function inTime(promise, name) {
  return new Promise((yes, no) => { promise.then(yes, no); setTimeout(() => no(refusal(name)), 3000); });
}

/** 16-bit samples of the model's rate: those of a plain .wav file as they are, anything else as the browser reads it. */
async function samplesOf(file, rate) {
  const buffer = await file.arrayBuffer(), plain = wavSamples(buffer);
  if (plain?.rate === rate) return plain.samples;
  let mono, from = plain?.rate;
  if (plain) mono = Float32Array.from(plain.samples, (value) => value / 32768);
  else {
    const audio = await new OfflineAudioContext(1, 1, rate).decodeAudioData(buffer).catch(() => {
      throw Object.assign(new Error(`${file.name} is no sound that this browser can read.`), { name: "File" });
    });
    const channels = Array.from({ length: audio.numberOfChannels }, (_, c) => audio.getChannelData(c));
    mono = channels[0].map((_, at) => channels.reduce((sum, one) => sum + one[at], 0) / channels.length);
    from = audio.sampleRate;
  }
  const found = [], hops = new Hops(from, rate, 1, ([value]) => found.push(value));
  hops.take(mono);
  return Int16Array.from(found);
}

/** One channel of 16-bit samples, or null where the file is anything else. */
function wavSamples(buffer) {
  const view = new DataView(buffer), tag = (at) => (at + 4 <= buffer.byteLength ? String.fromCharCode(...new Uint8Array(buffer, at, 4)) : "");
  if (tag(0) !== "RIFF" || tag(8) !== "WAVE") return null;
  let rate = null;
  for (let at = 12; at + 8 <= buffer.byteLength; ) {
    const size = view.getUint32(at + 4, true), begin = at + 8;
    if (tag(at) === "fmt " && begin + 16 <= buffer.byteLength) {
      const isPlain = view.getUint16(begin, true) === 1 && view.getUint16(begin + 2, true) === 1 && view.getUint16(begin + 14, true) === 16;
      if (!isPlain) return null;
      rate = view.getUint32(begin + 4, true);
    }
    if (tag(at) === "data" && rate !== null) {
      const end = Math.min(begin + size, buffer.byteLength);
      return { rate, samples: new Int16Array(buffer.slice(begin, end - ((end - begin) & 1))) };
    }
    at = begin + size + (size & 1);
  }
  return null;
}

/** Sliders for each value of a row, and where there is one the accelerometer of a phone. */
function motion(length, clear, row) {
  const now = new Float32Array(length), tensor = new Tensor(facts.inputs[0]);
  const [low, high] = tensor.range;
  const every = (milliseconds) => { const timer = setInterval(() => row(Array.from(now)), milliseconds); runs(async () => clearInterval(timer)); };
  const start = (feed) => async () => { await stop(); clear(); feed?.(); every(1000 / facts.rate); };
  const held = make("div");
  const show = () => held.replaceChildren(sliders(Array.from(now), low, high, (at, value) => { now[at] = value; }));
  byId("stage").append(held);
  show();
  const sensor = () => addEventListener("devicemotion", ({ accelerationIncludingGravity: a, rotationRate: r }) => {
    [a?.x, a?.y, a?.z, r?.alpha, r?.beta, r?.gamma].slice(0, length).forEach((value, at) => { now[at] = value ?? 0; });
  });
  const allowed = async () => { if (typeof DeviceMotionEvent.requestPermission === "function") await DeviceMotionEvent.requestPermission(); };
  const phone = "DeviceMotionEvent" in window ? [button("Motion of this device", async () => { await allowed(); await start(sensor)(); }, "motion")] : [];
  const random = () => { for (let at = 0; at < length; at++) now[at] = low + Math.random() * (high - low); show(); };
  return [button("Run the sliders", start(null), "run"), ...phone, button("Random row", random, "random"), button("Recorded example", async () => {
    await stop();
    clear();
    const codes = typed(assets.example.inputs[0], facts.inputs[0].dtype);
    for (let at = 0; at + length <= codes.length; at += length) {
      const part = codes.subarray(at, at + length);
      row(Array.from(part, (code) => tensor.dequantize(code)), part);
    }
  }, "example")];
}

function sliders(values, low, high, changed) {
  return make("div", { class: "values" }, ...values.map((value, at) => {
    const shown = make("output", {}, number(value));
    const input = make("input", { type: "range", min: String(low), max: String(high), step: String((high - low) / 255), ariaLabel: `value ${at}` });
    input.value = String(value);
    input.addEventListener("input", () => { shown.textContent = number(Number(input.value)); changed(at, Number(input.value)); });
    return make("label", {}, String(at), input, shown);
  }));
}

// ---- pictures --------------------------------------------------------------------------------------------------------

function pictures(model) {
  const run = (inputs = picture.inputs()) => {
    const begin = performance.now(), results = model.run(inputs);
    cortado.results = results.map(({ codes }) => Array.from(codes, Number));
    showResults(model, results, picture);
    say(`${(performance.now() - begin).toFixed(1)} ms here.`);
  };
  const picture = (cortado.picture = new Picture(model, () => run()));
  const example = async () => {
    await stop();
    if (facts.lineBytes) return run([bytesOf(assets.example.inputs[0])]);
    const codes = typed(assets.example.inputs[0], facts.inputs[0].dtype);
    picture.paint(model.inputs[0].values(codes));
    run([codes]);
  };
  const ends = picture.camera ? [] : ["black", "white"].map((name, i) => {
    const field = make("input", { type: "number", step: "any", id: name, value: String(picture.ends[i]), ariaLabel: `the input's value for ${name}` });
    field.addEventListener("change", () => guarded(() => { picture.ends[i] = Number(field.value); run(); }));
    return make("label", {}, `${name} is `, field);
  });
  const video = make("video", { muted: true, playsInline: true, width: 0, height: 0 });
  const camera = async () => {
    await stop();
    const stream = await device({ video: { width: { ideal: 640 }, height: { ideal: 480 } } });
    video.srcObject = stream;
    await video.play();
    let live = true;
    const frame = () => { if (!live) return; picture.show(video, video.videoWidth, video.videoHeight); requestAnimationFrame(frame); };
    runs(async () => { live = false; stream.getTracks().forEach((one) => one.stop()); });
    frame();
  };
  byId("controls").append(
    button("Camera", camera, "camera"), button("Recorded example", example, "example"),
    fileButton("Picture file", "image/*", async (file) => {
      await stop();
      const bitmap = await createImageBitmap(file).catch(() => { throw Object.assign(new Error(`${file.name} is no picture that this browser can read.`), { name: "File" }); });
      picture.show(bitmap, bitmap.width, bitmap.height);
    }),
    button("Clear", async () => { await stop(); picture.clear(); run(); }, "clear"), button("Stop", stop, "stop"), ...ends);
  byId("stop").disabled = true;
  picture.drawable();
  byId("stage").append(picture.stack);
  run();
  say("Draw in the field, drop a picture on the page, or press a button.");
}

// ---- anything else ---------------------------------------------------------------------------------------------------

function tables(model) {
  const MOST = 64;
  const example = () => model.inputs.map((tensor, i) => Array.from(tensor.values(typed(assets.example.inputs[i], tensor.dtype))));
  let values = example();
  const run = () => {
    const results = model.run(values);
    cortado.results = results.map(({ codes }) => Array.from(codes, Number));
    showResults(model, results);
  };
  const show = () => {
    byId("stage").replaceChildren(...model.inputs.flatMap((tensor, i) => {
      const [low, high] = tensor.range;
      const title = make("h3", {}, `${tensor.name} [${tensor.modelShape.join(", ")}]`);
      if (tensor.length <= MOST) return [title, sliders(values[i], low, high, (at, value) => { values[i][at] = value; guarded(run); })];
      const field = make("textarea", { ariaLabel: `${tensor.name}: ${tensor.length} numbers`, value: values[i].map(number).join(" ") });
      field.addEventListener("change", () => guarded(() => { values[i] = field.value.trim().split(/[\s,;]+/).map(Number); show(); }));
      return [title, curve(values[i], tensor.range, tensor.name), field];
    }));
    run();
  };
  const random = () => {
    values = model.inputs.map((tensor) => Array.from({ length: tensor.length }, () => {
      const [low, high] = tensor.range;
      return low + Math.random() * (high - low);
    }));
    show();
  };
  byId("controls").append(button("Recorded example", () => { values = example(); show(); }, "example"), button("Random", random, "random"));
  if (facts.state) byId("controls").append(button("Next step", run, "step"), button("Reset the state", () => { model.reset(); run(); }, "reset"));
  show();
  say("Move a slider, or press a button.");
}

// ---- bits and costs --------------------------------------------------------------------------------------------------

function example(fresh) {
  const { inputs, outputs } = assets.example;
  if (facts.methods) return fresh.replay(inputs.map(bytesOf), outputs.map((one) => bytesOf(one).length));
  return fresh.run(facts.lineBytes ? [bytesOf(inputs[0])] : facts.inputs.map((one, i) => typed(inputs[i], one.dtype)));
}

function compare(model) {
  const results = example(new model.constructor(model.module, facts)); // with the initial state
  let all = 0, first = null;
  results.forEach(({ name, codes }, i) => {
    const wanted = new codes.constructor(bytesOf(assets.example.outputs[i]).buffer);
    wanted.forEach((value, at) => { all++; if (first === null && value !== codes[at]) first = `${name}[${at}]: ${codes[at]}, expected ${value}`; });
  });
  cortado.compared = { all, first };
  byId("compared").className = first === null ? "good" : "bad";
  byId("compared").textContent = first === null ? `bit-exact: all ${all} output values` : `differs first at ${first}`;
}

function cost() {
  const chip = facts.chips[byId("chip").selectedIndex], found = facts.costs[chip.cpu], cards = [];
  const card = (name, figure, more) => cards.push(make("div", {}, make("dt", {}, name), make("dd", { class: "figure" }, figure), make("dd", { class: "note" }, more)));
  const milliseconds = found.cycles / (chip.megahertz * 1000), bytes = (count) => `${count.toLocaleString("en")} bytes`;
  card("time", `${milliseconds.toPrecision(3)} ms`, `${facts.rowBytes && facts.stream ? "for one output of the stream" : "for one inference"}, about ${Math.round(found.cycles).toLocaleString("en")} cycles`);
  if (found.learn) card("learning", `${(found.learn / (chip.megahertz * 1000)).toPrecision(3)} ms`, `for one example, about ${found.learn.toLocaleString("en")} cycles`);
  if (facts.kind === "sound") {
    const every = (1000 * facts.stream.hopRows * facts.rowBytes) / TYPES[facts.inputs[0].dtype].BYTES_PER_ELEMENT / facts.rate;
    card("duty", `${((100 * milliseconds) / every).toPrecision(2)} %`, `of every ${every.toPrecision(3)} ms at ${facts.rate} samples a second`);
  }
  const fitsRam = found.ram <= chip.ram, fitsFlash = chip.flash === null || facts.flash <= chip.flash;
  card("RAM", bytes(found.ram), `of ${bytes(chip.ram)}: ${fitsRam ? "it fits" : "too much"}`);
  card("flash", bytes(facts.flash), chip.flash === null ? "in external memory" : `of ${bytes(chip.flash)}: ${fitsFlash ? "it fits" : "too much"}`);
  byId("cost").replaceChildren(...cards);
  const missing = found.missing ? ` ${found.missing} of ${facts.layers} kernels have no entry in the cost table and count as 0 cycles.` : "";
  byId("cost-note").textContent = `Cycles are estimated for a ${chip.cpu} at ${chip.megahertz} MHz without wait states; flash is for ${facts.target}.${missing} To measure them, run cortado profile.`;
}

async function begin() {
  byId("name").textContent = facts.name;
  byId("about").textContent = `${facts.about} Version ${facts.version}, id ${facts.id}.`;
  const module = await WebAssembly.compile(bytesOf(assets.wasm));
  const model = (cortado.model = new (facts.methods ? Methods : Model)(module, facts));
  model.module = module;
  if (facts.report) byId("about").append(" ", make("a", { href: facts.report }, "The report"));
  byId("compare").onclick = () => guarded(() => compare(model));
  byId("chip").append(...facts.chips.map((one) => make("option", {}, `${one.name}: ${one.cpu}, ${one.megahertz} MHz`)));
  const own = facts.chips.findIndex((one) => one.name === facts.chip);
  byId("chip").selectedIndex = own >= 0 ? own : Math.max(0, facts.chips.findIndex((one) => one.cpu === facts.target));
  byId("chip").onchange = cost;
  cost();
  ({ sound: stream, motion: stream, image: pictures, numbers: tables, teach: teaching })[facts.kind](model);
  cortado.ready = true;
}
guarded(begin);
