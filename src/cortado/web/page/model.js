// SPDX-License-Identifier: Apache-2.0
// A compiled model in WebAssembly: the integers that the device computes with, bit for bit. A code q stands for the real
// number scale * (q - zeroPoint). Typed arrays of an input's own type are codes as they lie in memory; anything else is
// real numbers in the order of the model's dimensions.

const TYPES = {
  int8: Int8Array, uint8: Uint8Array, int16: Int16Array, int32: Int32Array, int64: BigInt64Array,
  float32: Float32Array, float64: Float64Array, bool: Uint8Array,
};

const product = (sizes) => sizes.reduce((all, size) => all * size, 1);

/** Rounds to nearest, ties to even, as the quantization of every target does. */
function roundEven(value) {
  const low = Math.floor(value), rest = value - low;
  return rest < 0.5 || (rest === 0.5 && low % 2 === 0) ? low : low + 1;
}

/** For each value as it lies in memory, its place in the model's order: sizes by dimension, and the order in which
 * those dimensions lie. */
function places(sizes, layout) {
  const strides = sizes.map((_, dim) => product(sizes.slice(dim + 1)));
  let found = [0];
  for (const dim of layout) {
    found = found.flatMap((at) => Array.from({ length: sizes[dim] }, (_, i) => at + i * strides[dim]));
  }
  return Uint32Array.from(found);
}

class Tensor {
  constructor(facts) {
    Object.assign(this, facts);
    this.length = product(facts.shape);
    this.type = TYPES[facts.dtype];
    this.isCodes = facts.scale !== null;
    this.straight = facts.layout.every((dim, at) => dim === at);
    this.inverse = this.isCodes ? Math.fround(1 / Math.fround(facts.scale)) : 1;
    const bits = 8 * this.type.BYTES_PER_ELEMENT;
    this.low = facts.dtype.startsWith("int") ? -(2 ** (bits - 1)) : 0;
    this.high = facts.dtype.startsWith("int") ? 2 ** (bits - 1) - 1 : 2 ** bits - 1;
  }

  /** One real number as a code. */
  quantize(value) {
    if (this.dtype.startsWith("float")) return value;
    const scaled = this.isCodes ? Math.fround(Math.fround(value) * this.inverse) + 0 : value;
    const code = roundEven(scaled) + (this.zeroPoint ?? 0);
    const held = Math.min(this.high, Math.max(this.low, Number.isNaN(code) ? 0 : code));
    return this.dtype === "int64" ? BigInt(held) : held;
  }

  dequantize(code) {
    return this.isCodes ? (Number(code) - this.zeroPoint) * this.scale : Number(code);
  }

  /** Real numbers in the model's order, or codes as they are, as codes in memory. */
  codes(values) {
    if (values.length !== this.length) {
      throw new RangeError(`${this.name}: ${values.length} values were given, expected ${this.length} (${this.modelShape})`);
    }
    if (values instanceof this.type && !this.dtype.startsWith("float")) return values;
    const order = this.order();
    return this.type.from({ length: this.length }, (_, at) => this.quantize(values[order === null ? at : order[at]]));
  }

  /** Codes in memory as real numbers in the model's order. */
  values(codes) {
    const order = this.order(), found = new Float32Array(this.length);
    codes.forEach((code, at) => { found[order === null ? at : order[at]] = this.dequantize(code); });
    return found;
  }

  order() {
    if (this.straight) return null;
    return (this.placed ??= places(this.modelShape, this.layout));
  }

  /** Real numbers of a row, `time` the dimension that it is one step of: its other dimensions in the model's order,
   * then of a signal its samples. */
  rowCodes(values, time) {
    const sizes = this.modelShape.map((size, dim) => (dim === 0 || dim === time ? 1 : size));
    this.row ??= places([...sizes, values.length / product(sizes)], [...this.layout, sizes.length]);
    return this.type.from(this.row, (at) => this.quantize(values[at]));
  }
}

class Model {
  constructor(module, facts) {
    this.facts = facts;
    this.inputs = facts.inputs.map((one) => new Tensor(one));
    this.outputs = facts.outputs.map((one) => new Tensor(one));
    this.wasm = new WebAssembly.Instance(module, {}).exports;
    this.wasm.reset();
  }

  /** Forgets what came before: of a stream its rows, of a model with state the state. */
  reset() {
    this.wasm.reset();
  }

  #at(address, type, length) {
    return new type(this.wasm.memory.buffer, address, length);
  }

  #results() {
    return this.outputs.map((tensor, i) => {
      const codes = this.#at(this.wasm.output(i), tensor.type, tensor.length).slice();
      return { name: tensor.name, shape: tensor.modelShape, codes, values: tensor.values(codes) };
    });
  }

  /** One inference. Of an input that comes row by row, all its rows from the first on: the outputs of the first
   * complete window. With a camera in front, the bytes of a picture, line by line. */
  run(inputs) {
    const { lineBytes, rowBytes } = this.facts;
    if (lineBytes > 0 || rowBytes > 0) {
      this.reset();
      const given = lineBytes > 0 ? inputs[0] : this.inputs[0].codes(inputs[0]);
      const bytes = new Uint8Array(given.buffer, given.byteOffset, given.byteLength);
      const size = lineBytes || rowBytes;
      let found = null;
      for (let at = 0; at + size <= bytes.length; at += size) found ??= this.#take(bytes.subarray(at, at + size));
      if (found === null) throw new RangeError(`${bytes.length} bytes were given: too few for an output`);
      return found;
    }
    if (inputs.length !== this.inputs.length) {
      throw new RangeError(`${inputs.length} inputs were given, expected ${this.inputs.length}`);
    }
    this.inputs.forEach((tensor, i) => this.#at(this.wasm.input(i), tensor.type, tensor.length).set(tensor.codes(inputs[i])));
    this.#check(this.wasm.run());
    return this.#results();
  }

  /** The next row of a stream: codes, or real numbers. Outputs where there are new ones, else null. */
  push(values) {
    const tensor = this.inputs[0];
    const length = this.facts.rowBytes / tensor.type.BYTES_PER_ELEMENT;
    if (values.length !== length) throw new RangeError(`${values.length} values were given, expected a row of ${length}`);
    const isCodes = values instanceof tensor.type && !tensor.dtype.startsWith("float");
    const codes = isCodes ? values : tensor.rowCodes(values, this.facts.time);
    return this.#take(new Uint8Array(codes.buffer, codes.byteOffset, codes.byteLength));
  }

  #take(bytes) {
    this.#at(this.wasm.row(), Uint8Array, bytes.length).set(bytes);
    return this.#check(this.wasm.push()) === 1 ? this.#results() : null;
  }

  #check(status) {
    if (status < 0) throw new Error(`${this.facts.name}: the model refused (${status})`);
    return status;
  }

  /** The class that was decided for since the last time it was asked, or null. */
  decision() {
    if (!this.facts.decides) return null;
    const index = this.#at(this.wasm.output(this.outputs.length), Int32Array, 1)[0];
    return index < 0 ? null : { index, label: this.facts.labels?.[index] ?? String(index) };
  }

  /** The last frame of the front end's spectrum, as codes; null without one. */
  bands() {
    const { bands } = this.facts;
    return bands === null ? null : this.#at(this.wasm.kept(), TYPES[bands.dtype], bands.count).slice();
  }
}
