/** The hashes of the ledger and of the operator's log. */

import { blake3 } from "@noble/hashes/blake3";
import { sha256 as nobleSha256 } from "@noble/hashes/sha2";
import { utf8ToBytes } from "@noble/hashes/utils";
import { ArgumentError } from "./errors.js";
import { networkIdBytes } from "./hex.js";

/** Length of a hash in bytes. */
export const HASH_LENGTH = 32;

/** BLAKE3. */
export function hash(bytes: Uint8Array): Uint8Array {
  return blake3(bytes);
}

/** BLAKE3 under a key of 32 bytes. */
export function keyed(key: Uint8Array, bytes: Uint8Array): Uint8Array {
  return blake3(bytes, { key });
}

/** The 32 bytes of BLAKE3's own mode for deriving a key: `context` says what it is for. */
export function derived(context: string, material: Uint8Array): Uint8Array {
  return blake3(material, { context: utf8ToBytes(context) });
}

/** {@link derived} for networks by their ids, which keeps the last key: one network is asked again and again. */
export function networkKey(context: string): (network: string) => Uint8Array {
  let last: { readonly network: string; readonly key: Uint8Array } | null = null;
  return (network) => {
    if (last?.network !== network) last = { network, key: derived(context, networkIdBytes(network)) };
    return last.key;
  };
}

/** SHA-256 over the parts, one after the other. */
export function sha256(...parts: Uint8Array[]): Uint8Array {
  const state = nobleSha256.create();
  for (const part of parts) state.update(part);
  return state.digest();
}

/** The 32 bytes of a key that says what a hash is of: the text, and zeros up to its end. */
export function domain(text: string): Uint8Array {
  const bytes = utf8ToBytes(text);
  if (bytes.length > HASH_LENGTH) throw new ArgumentError(`${text} is longer than a key`);
  const key = new Uint8Array(HASH_LENGTH);
  key.set(bytes);
  return key;
}
