/** Server-sent events as they are written (WHATWG HTML, sections 9.2.5 and 9.2.6). */

import { AnswerError } from "./errors.js";

/** What an empty line ends. */
export interface Block {
  /** The last event id as it is from here on; `null` where none was told. */
  readonly id: string | null;
  /** The event's name; empty where it has none. */
  readonly name: string;
  /** The event's data; `null` where it is no event. */
  readonly data: string | null;
}

/** The longest event that is read, in bytes. */
export const LARGEST_BLOCK_BYTES = 1 << 20;
const LF = 0x0a;
const CR = 0x0d;

/** Reads one stream, which may come in any parts. How long to wait before coming again (`retry`) is not read. */
export class EventStream {
  /** The line that has not ended, and how many bytes are of it and of the event's lines before it. */
  #line = Buffer.alloc(1 << 10);
  #lineBytes = 0;
  #blockBytes = 0;
  #isFirst = true;
  #endedWithCr = false;
  #id: string | null = null;
  #name = "";
  #data: string[] = [];

  /** The blocks that end in the next part. @throws {AnswerError} when an event is too long */
  *feed(part: Uint8Array): Generator<Block, void, undefined> {
    let from = 0;
    for (const [at, byte] of part.entries()) {
      if (byte === LF && this.#endedWithCr) {
        // The other half of a line end that was taken for a whole one.
        from = at + 1;
        this.#endedWithCr = false;
        continue;
      }
      this.#endedWithCr = byte === CR;
      if (byte !== LF && byte !== CR) continue;
      this.#grow(part.subarray(from, at));
      from = at + 1;
      const block = this.#end();
      if (block !== null) yield block;
    }
    this.#grow(part.subarray(from));
  }

  #grow(piece: Uint8Array): void {
    const length = this.#lineBytes + piece.length;
    if (length + this.#blockBytes > LARGEST_BLOCK_BYTES) {
      throw new AnswerError(`an event is longer than ${LARGEST_BLOCK_BYTES} bytes`);
    }
    if (length > this.#line.length) {
      const larger = Buffer.alloc(Math.max(length, 2 * this.#line.length));
      this.#line.copy(larger, 0, 0, this.#lineBytes);
      this.#line = larger;
    }
    this.#line.set(piece, this.#lineBytes);
    this.#lineBytes = length;
  }

  /** Ends a line; the block that it ends, if it does. */
  #end(): Block | null {
    const text = this.#line.toString("utf8", 0, this.#lineBytes);
    const line = this.#isFirst && text.startsWith("\ufeff") ? text.slice(1) : text;
    const bytes = this.#lineBytes;
    this.#isFirst = false;
    this.#lineBytes = 0;
    if (line !== "") {
      if (this.#field(line)) this.#blockBytes += bytes + 1;
      return null;
    }
    const block = {
      id: this.#id,
      name: this.#name,
      data: this.#data.length === 0 ? null : this.#data.join("\n"),
    };
    this.#name = "";
    this.#data = [];
    this.#blockBytes = 0;
    return block;
  }

  /** Takes a field; whether it is data. What a later gateway says is no error. */
  #field(line: string): boolean {
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (name === "data") this.#data.push(value);
    else if (name === "event") this.#name = value;
    else if (name === "id" && !value.includes("\0")) this.#id = value;
    return name === "data";
  }
}
