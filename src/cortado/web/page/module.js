
export { Model, Tensor };

/** The model of MODEL.wasm beside this file; `source` may be its bytes, an address or a compiled module instead. */
export async function load(source = new URL(`./${facts.prefix}.wasm`, import.meta.url)) {
  return new Model(await compiled(source), facts);
}

async function compiled(source) {
  if (source instanceof WebAssembly.Module) return source;
  if (ArrayBuffer.isView(source) || source instanceof ArrayBuffer) return WebAssembly.compile(source);
  const url = new URL(source, import.meta.url);
  if (url.protocol === "file:" && typeof process !== "undefined") {
    const { readFile } = await import("node:fs/promises");
    return WebAssembly.compile(await readFile(url));
  }
  return WebAssembly.compile(await (await fetch(url)).arrayBuffer());
}
