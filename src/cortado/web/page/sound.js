// SPDX-License-Identifier: Apache-2.0
// Sound as the model takes it: any rate to any other, real numbers to hops of samples. The audio worklet gets this file
// as text, so it uses nothing of the page.

/** A windowed sinc, one set of taps for each phase. Nothing is lost between two blocks. */
class Resampler {
  constructor(from, to, lobes = 16, cutoff = 0.92) {
    const gcd = (a, b) => (b ? gcd(b, a % b) : a);
    const common = gcd(from, to), ratio = Math.min(1, to / from), half = lobes / ratio;
    this.up = to / common;
    this.down = from / common;
    this.taps = 2 * Math.ceil(half);
    this.phases = Array.from({ length: this.up }, (_, phase) => this.#filter(phase / this.up, half, ratio * cutoff));
    this.kept = new Float32Array(this.taps - 1);
    this.at = 0;
    this.phase = 0;
  }

  #filter(shift, half, scale) {
    const bessel = (x) => { let sum = 1, term = 1; for (let k = 1; k < 30; k++) sum += term *= (x / 2 / k) ** 2; return sum; };
    const found = Float64Array.from({ length: this.taps }, (_, i) => {
      const t = i - (this.taps / 2 - 1) - shift, edge = t / half, angle = Math.PI * t * scale;
      return Math.abs(edge) < 1 ? (t === 0 ? 1 : Math.sin(angle) / angle) * bessel(8 * Math.sqrt(1 - edge * edge)) : 0;
    });
    const sum = found.reduce((all, one) => all + one, 0);
    return found.map((one) => one / sum);
  }

  /** Calls `out` with each sample that these samples complete. */
  take(samples, out) {
    const all = new Float32Array(this.kept.length + samples.length);
    all.set(this.kept);
    all.set(samples, this.kept.length);
    while (this.at + this.taps <= all.length) {
      const taps = this.phases[this.phase];
      let sum = 0;
      for (let i = 0; i < this.taps; i++) sum += taps[i] * all[this.at + i];
      out(sum);
      this.phase += this.down;
      this.at += Math.floor(this.phase / this.up);
      this.phase %= this.up;
    }
    const dropped = Math.min(this.at, all.length - (this.taps - 1));
    this.kept = all.slice(dropped);
    this.at -= dropped;
  }
}

/** Real numbers of one rate to hops of 16-bit samples of another. */
class Hops {
  constructor(from, to, length, done) {
    this.resampler = from === to ? null : new Resampler(from, to);
    this.hop = new Int16Array(length);
    this.count = 0;
    this.put = (value) => {
      this.hop[this.count++] = Math.max(-32768, Math.min(32767, Math.round(value * 32768)));
      if (this.count === length) {
        this.count = 0;
        done(this.hop.slice());
      }
    };
  }

  take(samples) {
    if (this.resampler) this.resampler.take(samples, this.put);
    else samples.forEach(this.put);
  }
}
