// SPDX-License-Identifier: Apache-2.0
// Runs a harness that was built for WebAssembly: node run.mjs PROGRAM.wasm <input >records
import { readFileSync, writeSync } from "node:fs";

class Stopped extends Error {}

const given = readFileSync(0);
const said = [];
let at = 0;
let memory;

const bytes = (from, count) => new Uint8Array(memory.buffer, from, count);

const cortado = {
  read(to, count) {
    if (given.length - at < count) return -1;
    bytes(to, count).set(given.subarray(at, at + count));
    at += count;
    return 0;
  },
  put(from, count) {
    said.push(bytes(from, count).slice());
  },
  stop(code) {
    process.exitCode = code;
    throw new Stopped();
  },
};

const { instance } = await WebAssembly.instantiate(readFileSync(process.argv[2]), { cortado });
memory = instance.exports.memory;
try {
  instance.exports.cortado_main();
} catch (error) {
  if (!(error instanceof Stopped)) throw error;
} finally {
  const all = Buffer.concat(said);
  for (let done = 0; done < all.length; ) done += writeSync(1, all, done);
}
