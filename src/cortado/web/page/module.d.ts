/** Codes as the device computes with them, or real numbers. */
export type Values = ArrayLike<number> | Int8Array | Uint8Array | Int16Array | Int32Array | BigInt64Array | Float32Array;

export interface TensorFacts {
  readonly name: string;
  readonly shape: readonly number[];
  readonly modelShape: readonly number[];
  readonly layout: readonly number[];
  readonly dtype: "int8" | "uint8" | "int16" | "int32" | "int64" | "float32" | "float64" | "bool";
  readonly scale: number | null;
  readonly zeroPoint: number | null;
}

export interface Facts {
  readonly name: string;
  readonly prefix: string;
  readonly id: string;
  readonly version: string;
  readonly labels: readonly string[] | null;
  readonly inputs: readonly TensorFacts[];
  readonly outputs: readonly TensorFacts[];
  /** Bytes of a row that `push` takes; 0: inputs are whole. */
  readonly rowBytes: number;
  /** The dimension of the input that rows of a stream are steps of, or null. */
  readonly time: number | null;
  /** Bytes of a line of the camera; 0: there is none. */
  readonly lineBytes: number;
  readonly decides: boolean;
}

export interface Output {
  readonly name: string;
  readonly shape: readonly number[];
  /** As they lie in memory. */
  readonly codes: ArrayLike<number> | BigInt64Array;
  /** Real numbers in the order of the model's dimensions. */
  readonly values: Float32Array;
}

export declare class Tensor {
  readonly name: string;
  readonly length: number;
  quantize(value: number): number | bigint;
  dequantize(code: number | bigint): number;
}

export declare class Model {
  readonly facts: Facts;
  readonly inputs: readonly Tensor[];
  readonly outputs: readonly Tensor[];
  /** One inference; with a camera in front, the bytes of a picture. */
  run(inputs: readonly Values[]): Output[];
  /** The next row of a stream; null where there is no new output. */
  push(values: Values): Output[] | null;
  /** What was decided since it was last asked. */
  decision(): { index: number; label: string } | null;
  /** The last frame of the front end's spectrum. */
  bands(): Values | null;
  /** Forgets what came before. */
  reset(): void;
}

export declare const facts: Facts;
export declare function load(source?: URL | string | ArrayBuffer | ArrayBufferView | WebAssembly.Module): Promise<Model>;
