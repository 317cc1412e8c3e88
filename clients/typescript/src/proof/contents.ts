/** Contents: what a transaction's id commits to, each leg shown or hidden behind its hash. */

import { ProofError } from "../errors.js";
import { fromHex } from "../hex.js";
import type { Schemas } from "../schema.js";
import { idOf, type Leg, legHash } from "../transaction.js";

/** The most legs that a transaction's form can hold. */
const MAX_LEGS = 255;

/** The leg, if it is shown. */
export function shownLeg(leg: Schemas["ProvenLeg"]): Leg | null {
  if (!("shown" in leg)) return null;
  const { participant, asset, account, amount } = leg.shown;
  return { participant, asset, account, amount };
}

/** The id, computed from the contents. */
export function contentsId(contents: Schemas["Contents"], network: number): Uint8Array {
  if (contents.legs.length > MAX_LEGS) throw new ProofError("form", "the transaction has too many legs");
  const hashes = contents.legs.map((leg, position) => {
    if ("hidden" in leg) return fromHex(leg.hidden, "a hidden leg", 32);
    return legHash(fromHex(leg.shown.salt, "a salt", 16), leg.shown, position);
  });
  const { kind, participants, expiry, uetr } = contents;
  const details = fromHex(contents.details, "details", 32);
  return idOf({ kind, participants, network, expiry, uetr, details }, hashes);
}
