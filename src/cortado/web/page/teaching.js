// SPDX-License-Identifier: Apache-2.0
// A model that is taught: its methods with the state that they share, and a page that records what they learn from.

/** Methods of one module. A call is the number of a method and its inputs, the answer its outputs. */
class Methods {
  constructor(module, facts) {
    this.facts = facts;
    const tensors = (group) => group.map((one) => new Tensor(one));
    this.methods = Object.fromEntries(Object.entries(facts.methods).map(
      ([name, { number, inputs, outputs }]) => [name, { number, inputs: tensors(inputs), outputs: tensors(outputs) }]));
    this.wasm = new WebAssembly.Instance(module, {}).exports;
    this.wasm.reset();
  }

  /** The bytes of an answer. */
  #answer(call) {
    new Uint8Array(this.wasm.memory.buffer, this.wasm.input(0), call.length).set(call);
    const status = this.wasm.run();
    if (status !== 0) throw new Error(`${this.facts.name}: the model refused (${status})`);
    return new Uint8Array(this.wasm.memory.buffer, this.wasm.output(0));
  }

  /** Outputs of a method, for real numbers or codes. */
  call(name, values) {
    const { number, inputs, outputs } = this.methods[name];
    const call = new Uint8Array(this.facts.callBytes);
    call[0] = number;
    let at = 1;
    inputs.forEach((tensor, i) => {
      const codes = tensor.codes(values[i]);
      call.set(new Uint8Array(codes.buffer, codes.byteOffset, codes.byteLength), at);
      at += codes.byteLength;
    });
    const answer = this.#answer(call);
    at = 0;
    return outputs.map((tensor) => {
      const bytes = answer.slice(at, at + tensor.length * tensor.type.BYTES_PER_ELEMENT);
      at += bytes.length;
      const codes = new tensor.type(bytes.buffer);
      return { name: tensor.name, codes, values: tensor.values(codes) };
    });
  }

  /** The answers of calls that were recorded, one after the other. */
  replay(calls, lengths) {
    return calls.map((call, i) => ({ name: `call ${i + 1}`, codes: this.#answer(call).slice(0, lengths[i]) }));
  }
}

/** The part of a sound that is loudest, of the length of an utterance. */
function loudest(samples, length) {
  if (samples.length <= length) return [...samples, ...new Array(length - samples.length).fill(0)];
  const step = Math.max(1, length >> 4);
  let best = 0, most = -1;
  for (let at = 0; at + length <= samples.length; at += step) {
    let sum = 0;
    for (let i = at; i < at + length; i++) sum += samples[i] * samples[i];
    if (sum > most) [best, most] = [at, sum];
  }
  return Array.from(samples.slice(best, best + length));
}

function teaching(model) {
  const [tensor] = model.methods.forward.inputs, { classes, known, labels } = facts;
  const rate = make("input", { type: "number", value: String(facts.rate), min: "1000", max: "192000", id: "rate", ariaLabel: "samples a second" });
  const counts = new Array(classes).fill(0), names = [], shown = [], teachers = [];
  let utterance = null;
  cortado.calls = [];
  const call = (method, ...values) => {
    const results = model.call(method, values);
    cortado.calls.push({ method, values: values.map((one) => Array.from(one)), codes: results.map(({ codes }) => Array.from(codes, Number)) });
    return results;
  };
  const nameOf = (found) => (found < 0 ? "none of the classes" : found < known ? labels[found] ?? `class ${found}` : names[found - known].value);
  const ask = () => {
    if (utterance === null) return;
    const [found, near] = call("forward", utterance), name = nameOf(Number(found.codes[0]));
    byId("heard").replaceChildren(make("span", { class: "chip" }, name), near ? ` nearness ${number(near.values[0])}` : "");
  };
  const count = (at, found) => { counts[at] = found; shown[at].textContent = `${found} example${found === 1 ? "" : "s"}`; };
  const heard = (samples) => {
    utterance = tensor.isCodes || tensor.dtype.startsWith("float") ? samples.map((value) => value / 32768) : samples;
    byId("stage").replaceChildren(curve(samples, [-32768, 32767], "utterance"));
    teachers.forEach((one) => { one.disabled = false; });
    ask();
    say("Teach it as one of the classes, or record another.");
  };
  const record = async () => {
    let done = false;
    await microphone(Number(rate.value), tensor.length, () => {}, (samples) => guarded(async () => {
      if (done) return;
      done = true;
      await stop();
      heard(samples);
    }));
  };
  const rows = Array.from({ length: classes }, (_, at) => {
    names[at] = make("input", { type: "text", id: `name-${at}`, value: `class ${known + at}`, maxLength: 40, ariaLabel: `name of class ${known + at}` });
    shown[at] = make("output", { id: `count-${at}` }, "0 examples");
    teachers[at] = button("Teach", () => { call("learn", utterance, [at]); count(at, counts[at] + 1); ask(); }, `teach-${at}`);
    teachers[at].disabled = true;
    const forget = button("Forget", () => { call("forget", [at]); count(at, 0); ask(); }, `forget-${at}`);
    return make("p", { class: "tools" }, names[at], teachers[at], forget, shown[at]);
  });
  byId("controls").append(
    button("Record", record, "microphone"), button("Stop", stop, "stop"),
    fileButton("Sound file", "audio/*,.wav", async (file) => { await stop(); heard(loudest(await samplesOf(file, Number(rate.value)), tensor.length)); }),
    make("label", { for: "rate" }, "samples a second"), rate);
  byId("stop").disabled = true;
  byId("results").replaceChildren(...rows);
  say(`Record an utterance of ${(tensor.length / facts.rate).toPrecision(2)} s, then teach it as one of the classes.`);
}
