/** Hexadecimal: the text form of hashes, keys, signatures and batches. */

import { bytesToHex } from "@noble/hashes/utils";
import { DecodeError } from "./errors.js";

/** Lower-case digits. */
export function toHex(bytes: Uint8Array): string {
  return bytesToHex(bytes);
}

/**
 * Reads digits of any case.
 *
 * @param length how many bytes it must be, where that is known
 * @throws {DecodeError} on any other text
 */
export function fromHex(text: string, what = "hexadecimal text", length?: number): Uint8Array {
  const digits = length === undefined ? text.length : 2 * length;
  if (text.length !== digits || digits % 2 !== 0) {
    throw new DecodeError(
      what,
      `${length === undefined ? "an even number of" : digits} digits are wanted`,
      0,
    );
  }
  const wrong = text.search(/[^0-9a-fA-F]/);
  if (wrong >= 0) throw new DecodeError(what, "not a hexadecimal digit", wrong);
  const bytes = new Uint8Array(digits / 2);
  for (let at = 0; at < bytes.length; at++) {
    bytes[at] = Number.parseInt(text.slice(2 * at, 2 * at + 2), 16);
  }
  return bytes;
}

/**
 * The 32 bytes of a network's id.
 *
 * @throws {DecodeError} when the text is not 64 lower-case hexadecimal digits
 */
export function networkIdBytes(text: unknown, position = "$"): Uint8Array {
  // A number was an id in version 1, and may still come from JavaScript.
  if (typeof text !== "string" || !/^[0-9a-f]{64}$/.test(text)) {
    const shown = typeof text === "string" ? `'${text.slice(0, 80)}'` : `a ${typeof text}`;
    throw new DecodeError(
      "the network's id",
      `64 lower-case hexadecimal digits are wanted, not ${shown}`,
      position,
    );
  }
  return fromHex(text);
}

/** Whether both are the same bytes. */
export function sameBytes(one: Uint8Array, other: Uint8Array): boolean {
  return one.length === other.length && one.every((byte, at) => byte === other[at]);
}
