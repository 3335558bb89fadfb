// SHA-256 without waiting, which Web Crypto has not.

const ROUNDS = constants((root) => Math.cbrt(root), 64);
const START = constants((root) => Math.sqrt(root), 8);

/** The hash of a text's UTF-8, in hexadecimal. */
export function sha256(text: string): string {
  const data = new TextEncoder().encode(text);
  const padded = new Uint8Array((((data.length + 8) >> 6) + 1) << 6);
  padded.set(data);
  padded[data.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setBigUint64(padded.length - 8, 8n * BigInt(data.length));
  const hash = Uint32Array.from(START);
  const words = new Uint32Array(64);
  for (let at = 0; at < padded.length; at += 64) block(view, at, words, hash);
  return Array.from(hash, (word) => word.toString(16).padStart(8, "0")).join("");
}

function block(view: DataView, at: number, words: Uint32Array, hash: Uint32Array): void {
  for (let i = 0; i < 16; ++i) words[i] = view.getUint32(at + 4 * i);
  for (let i = 16; i < 64; ++i) {
    const early = word(words, i - 15);
    const late = word(words, i - 2);
    const s0 = turned(early, 7) ^ turned(early, 18) ^ (early >>> 3);
    const s1 = turned(late, 17) ^ turned(late, 19) ^ (late >>> 10);
    words[i] = word(words, i - 16) + s0 + word(words, i - 7) + s1;
  }
  let [a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0] = hash;
  for (let i = 0; i < 64; ++i) {
    const s1 = turned(e, 6) ^ turned(e, 11) ^ turned(e, 25);
    const first = (h + s1 + ((e & f) ^ (~e & g)) + (ROUNDS[i] ?? 0) + word(words, i)) | 0;
    const s0 = turned(a, 2) ^ turned(a, 13) ^ turned(a, 22);
    const second = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    [h, g, f, e, d, c, b, a] = [g, f, e, (d + first) | 0, c, b, a, (first + second) | 0];
  }
  for (const [i, value] of [a, b, c, d, e, f, g, h].entries()) hash[i] = word(hash, i) + value;
}

function word(words: Uint32Array, at: number): number {
  return words[at] ?? 0;
}

function turned(value: number, by: number): number {
  return (value >>> by) | (value << (32 - by));
}

// The first 32 bits of the fractions of roots of the first primes.
function constants(root: (prime: number) => number, count: number): number[] {
  const made: number[] = [];
  for (let candidate = 2; made.length < count; ++candidate) {
    let isPrime = true;
    for (let by = 2; by * by <= candidate; ++by) isPrime &&= candidate % by !== 0;
    if (isPrime) made.push(((root(candidate) % 1) * 2 ** 32) | 0);
  }
  return made;
}
