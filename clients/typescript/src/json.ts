/** JSON (RFC 8259) whose whole numbers are exact: they are read as `bigint`, and written as digits. */

import { DecodeError } from "./errors.js";

/** What a document holds. Whole numbers are `bigint`, others `number`. */
export type Json = null | boolean | number | bigint | string | Json[] | { [name: string]: Json };

/** How deep arrays and objects may lie in each other. */
const MAX_DEPTH = 64;
const NUMBER = /-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/y;
// eslint-disable-next-line no-control-regex -- strings must not have them
const STRING = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
const SPACE = /[ \t\n\r]*/y;
/** No whole number of the interface has more digits. */
const MAX_DIGITS = 40;

/**
 * Reads a document. A name that is there twice in one object is an error.
 *
 * @throws {DecodeError} on any other text
 */
export function parseJson(text: string, what = "JSON"): Json {
  const reader = new TextReader(text, what);
  const value = reader.value(0);
  reader.end();
  return value;
}

class TextReader {
  #at = 0;

  constructor(
    readonly text: string,
    readonly what: string,
  ) {}

  value(depth: number): Json {
    if (depth > MAX_DEPTH) throw this.#error("values lie too deep in each other");
    this.#match(SPACE);
    switch (this.text[this.#at]) {
      case "{":
        return this.#object(depth);
      case "[":
        return this.#array(depth);
      case '"':
        return this.#string();
      case "t":
        return this.#word("true", true);
      case "f":
        return this.#word("false", false);
      case "n":
        return this.#word("null", null);
      default:
        return this.#number();
    }
  }

  end(): void {
    this.#match(SPACE);
    if (this.#at < this.text.length) throw this.#error("text follows the document");
  }

  #object(depth: number): Json {
    const object: { [name: string]: Json } = {};
    this.#items("}", () => {
      this.#match(SPACE);
      const name = this.#string();
      if (Object.hasOwn(object, name)) throw this.#error("a name is there twice");
      this.#match(SPACE);
      this.#word(":", null);
      const value = this.value(depth + 1);
      // Assigning to `__proto__` would not make a member of that name.
      Object.defineProperty(object, name, { value, enumerable: true, writable: true, configurable: true });
    });
    return object;
  }

  #array(depth: number): Json[] {
    const array: Json[] = [];
    this.#items("]", () => array.push(this.value(depth + 1)));
    return array;
  }

  #items(end: string, item: () => void): void {
    this.#at++;
    this.#match(SPACE);
    if (this.text[this.#at] === end) {
      this.#at++;
      return;
    }
    for (;;) {
      item();
      this.#match(SPACE);
      const next = this.text[this.#at];
      if (next !== "," && next !== end) throw this.#error(`',' or '${end}' is wanted`);
      this.#at++;
      if (next === end) return;
    }
  }

  #string(): string {
    const text = this.#match(STRING);
    if (text === null) throw this.#error("a string is wanted");
    return JSON.parse(text[0]) as string;
  }

  #number(): number | bigint {
    const from = this.#at;
    const text = this.#match(NUMBER);
    if (text === null) throw this.#error("a value is wanted");
    const [digits, fraction, exponent] = text;
    if (fraction !== undefined || exponent !== undefined) return Number(digits);
    if (digits.length > MAX_DIGITS) {
      this.#at = from;
      throw this.#error("a number has too many digits");
    }
    return BigInt(digits);
  }

  #word<T>(word: string, value: T): T {
    if (!this.text.startsWith(word, this.#at)) throw this.#error(`'${word}' is wanted`);
    this.#at += word.length;
    return value;
  }

  #match(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.text);
    this.#at += found?.[0].length ?? 0;
    return found;
  }

  #error(problem: string): DecodeError {
    return new DecodeError(this.what, problem, `character ${this.#at}`);
  }
}

/** Writes a value as JSON; what is `undefined` is left out. `indent` spaces make it readable. */
export function formatJson(value: unknown, indent = 0): string {
  const write = (value: unknown, margin: string): string => {
    if (typeof value === "bigint") return value.toString();
    if (typeof value !== "object" || value === null) return JSON.stringify(value);
    const inner = margin === "" && indent === 0 ? "" : margin + " ".repeat(indent);
    const [open, close] = Array.isArray(value) ? "[]" : "{}";
    const items = Array.isArray(value)
      ? value.map((item) => write(item, inner))
      : Object.entries(value)
          .filter(([, item]) => item !== undefined)
          .map(([name, item]) => `${JSON.stringify(name)}:${indent > 0 ? " " : ""}${write(item, inner)}`);
    if (items.length === 0) return `${open}${close}`;
    if (indent === 0) return `${open}${items.join(",")}${close}`;
    return `${open}\n${inner}${items.join(`,\n${inner}`)}\n${margin}${close}`;
  };
  return write(value, "");
}
