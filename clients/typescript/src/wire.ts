/** Strict reading and plain writing of the little-endian layouts that are hashed and signed. */

import { ArgumentError, DecodeError } from "./errors.js";

/** The largest 64-bit number without a sign. */
export const MAX_U64 = (1n << 64n) - 1n;
const MAX_I64 = (1n << 63n) - 1n;

/** Builds a record from front to back. A number outside its field's range is an {@link ArgumentError}. */
export class Writer {
  readonly #parts: Uint8Array[] = [];
  #length = 0;

  bytes(bytes: Uint8Array): this {
    this.#parts.push(bytes);
    this.#length += bytes.length;
    return this;
  }
  /** Bytes of a length that the layout fixes. */
  exactly(length: number, bytes: Uint8Array): this {
    if (bytes.length !== length) {
      throw new ArgumentError(`${length} bytes are wanted, these are ${bytes.length}`);
    }
    return this.bytes(bytes);
  }
  zeros(count: number): this {
    return this.bytes(new Uint8Array(count));
  }
  u8(value: number): this {
    return this.#number(value, 1);
  }
  u16(value: number): this {
    return this.#number(value, 2);
  }
  u32(value: number): this {
    return this.#number(value, 4);
  }
  u64(value: bigint): this {
    inRange(value, 0n, MAX_U64);
    return this.#view(8, (view) => view.setBigUint64(0, value, true));
  }
  i64(value: bigint): this {
    inRange(value, -MAX_I64 - 1n, MAX_I64);
    return this.#view(8, (view) => view.setBigInt64(0, value, true));
  }
  /** Zeros up to a multiple of `block` bytes. */
  pad(block: number): this {
    return this.zeros((block - (this.#length % block)) % block);
  }
  finish(): Uint8Array {
    const out = new Uint8Array(this.#length);
    let at = 0;
    for (const part of this.#parts) {
      out.set(part, at);
      at += part.length;
    }
    return out;
  }

  #number(value: number, size: 1 | 2 | 4): this {
    if (!Number.isInteger(value) || value < 0 || value >= 2 ** (8 * size)) {
      throw new ArgumentError(`${value} does not fit ${8 * size} bits`);
    }
    return this.#view(size, (view) => {
      if (size === 1) view.setUint8(0, value);
      else if (size === 2) view.setUint16(0, value, true);
      else view.setUint32(0, value, true);
    });
  }
  #view(size: number, write: (view: DataView) => void): this {
    const bytes = new Uint8Array(size);
    write(new DataView(bytes.buffer));
    return this.bytes(bytes);
  }
}

function inRange(value: bigint, least: bigint, most: bigint): void {
  if (value < least || value > most) throw new ArgumentError(`${value} does not fit 64 bits`);
}

/** Reads a record from front to back; every length is checked before anything is read. */
export class Reader {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  #position = 0;

  /** @param what names the record in errors */
  constructor(
    readonly what: string,
    bytes: Uint8Array,
  ) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  /** An error at the present position. */
  error(problem: string): DecodeError {
    return new DecodeError(this.what, problem, this.#position);
  }
  /** A copy of the next `count` bytes. */
  take(count: number): Uint8Array {
    return this.#bytes.slice(this.#advance(count), this.#position);
  }
  u8(): number {
    return this.#view.getUint8(this.#advance(1));
  }
  u16(): number {
    return this.#view.getUint16(this.#advance(2), true);
  }
  u32(): number {
    return this.#view.getUint32(this.#advance(4), true);
  }
  u64(): bigint {
    return this.#view.getBigUint64(this.#advance(8), true);
  }
  i64(): bigint {
    return this.#view.getBigInt64(this.#advance(8), true);
  }
  /** A count of 32 bits, at most `limit`. */
  count(limit: number): number {
    const count = this.u32();
    if (count > limit) throw this.error("a count is above its limit");
    return count;
  }
  /** The version byte, which must be `version`. */
  version(version: number): void {
    if (this.u8() !== version) throw this.error("the version is unknown");
  }
  /** That nothing is left. */
  end(): void {
    if (this.#position !== this.#bytes.length) throw this.error("bytes follow the record");
  }

  #advance(count: number): number {
    const from = this.#position;
    if (count > this.#bytes.length - from) throw this.error("the record ends early");
    this.#position += count;
    return from;
  }
}
