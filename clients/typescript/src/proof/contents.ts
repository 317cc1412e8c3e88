/** Contents: what a transaction's id commits to, each leg shown or hidden behind its hash. */

import { ProofError } from "../errors.js";
import { fromHex } from "../hex.js";
import type { Schemas } from "../schema.js";
import { idOf, isAscending, type Leg, legHash, MAX_PARTICIPANTS } from "../transaction.js";

/** The most legs that a transaction's form can hold. */
const MAX_LEGS = 255;

/** The leg, if it is shown. */
export function shownLeg(leg: Schemas["ProvenLeg"]): Leg | null {
  if (!("shown" in leg)) return null;
  const { participant, asset, account, amount } = leg.shown;
  return { participant, asset, account, amount };
}

/**
 * Checks that who is concerned and what is shown belong together: participants are listed once and in ascending order, the
 * legs that are shown are theirs, and each of them has one, shown or hidden. An account order has none, and one participant.
 *
 * @throws {ProofError} when they do not
 */
function checkContents({ legs, participants }: Schemas["Contents"]): void {
  const must = (holds: boolean, problem: string) => {
    if (!holds) throw new ProofError("form", `the transaction's contents do not belong together: ${problem}`);
  };
  must(legs.length <= MAX_LEGS, "it has too many legs");
  const count = participants.length;
  must(count >= 1 && count <= MAX_PARTICIPANTS, `it has ${count} participants, not 1 to ${MAX_PARTICIPANTS}`);
  must(isAscending(participants), "its participants are not in ascending order");
  const shown = legs.flatMap((leg) => shownLeg(leg) ?? []);
  const known = new Set(shown.map(({ participant }) => participant));
  must(
    [...known].every((participant) => participants.includes(participant)),
    "a leg is of an institution that is not among its participants",
  );
  const hidden = legs.length - shown.length;
  must(
    count <= (legs.length === 0 ? 1 : known.size + hidden),
    "one of its participants can have no leg in it",
  );
}

/** The id, computed from the contents. @throws {ProofError} when they do not belong together */
export function contentsId(contents: Schemas["Contents"]): Uint8Array {
  checkContents(contents);
  const hashes = contents.legs.map((leg, position) => {
    if ("hidden" in leg) return fromHex(leg.hidden, "a hidden leg", 32);
    return legHash(fromHex(leg.shown.salt, "a salt", 16), leg.shown, position);
  });
  const { kind, participants, network, expiry, uetr } = contents;
  const details = fromHex(contents.details, "details", 32);
  return idOf({ kind, network, expiry, uetr, details }, participants, hashes);
}
