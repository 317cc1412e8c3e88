/** UETR: the Unique End-to-end Transaction Reference of a payment, a UUID (ISO 20022). */

import { randomUUID } from "node:crypto";
import { ArgumentError } from "./errors.js";
import { fromHex, toHex } from "./hex.js";

const FORM = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/** A new reference. */
export function newUetr(): string {
  return randomUUID();
}

/** Its 16 bytes. */
export function uetrBytes(text: string): Uint8Array {
  if (!FORM.test(text)) {
    throw new ArgumentError(`'${text.slice(0, 64)}' is not a UETR: a UUID is wanted`);
  }
  return fromHex(text.replaceAll("-", ""), "UETR", 16);
}

/** The text of 16 bytes, in lower case. */
export function uetrText(bytes: Uint8Array): string {
  return toHex(bytes).replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}
