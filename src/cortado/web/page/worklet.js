// SPDX-License-Identifier: Apache-2.0
// In the audio worklet, behind sound.js: the microphone's blocks as hops of the model's rate.
registerProcessor("cortado-hops", class extends AudioWorkletProcessor {
  constructor({ processorOptions: { rate, length } }) {
    super();
    this.live = true;
    this.port.onmessage = () => { this.live = false; };
    this.hops = new Hops(sampleRate, rate, length, (hop) => this.port.postMessage(hop, [hop.buffer]));
  }

  process([input]) {
    if (input[0]) this.hops.take(input[0]);
    return this.live;
  }
});
