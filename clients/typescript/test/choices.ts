// Random choices that a seed makes.

export class Choices {
  constructor(private state: number) {}

  /** At least 0, less than 1. */
  random(): number {
    this.state = (this.state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.state ^ (this.state >>> 15), 1 | this.state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  /** At least `from`, at most `to`. */
  integer(from: number, to: number): number {
    return from + Math.floor(this.random() * (to - from + 1));
  }

  of<T>(all: readonly T[]): T {
    return all[this.integer(0, all.length - 1)] as T;
  }

  some<T>(all: readonly T[], count: number): T[] {
    const left = [...all];
    return Array.from({ length: count }, () => left.splice(this.integer(0, left.length - 1), 1)[0] as T);
  }
}
