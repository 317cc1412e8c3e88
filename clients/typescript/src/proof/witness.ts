/**
 * Witnesses: institutions that cosign the heads of the operator's log, so that it cannot show two histories alone.
 *
 * A witness signs a head as a checkpoint with its own time (C2SP tlog-checkpoint and tlog-cosignature), five lines:
 *
 * ```text
 * cosignature/v1
 * time 1750000060
 * tallystick.settlement/v2/<64 hexadecimal digits of the network's id>
 * 50
 * <base64 of the root>
 * ```
 */

import { utf8ToBytes } from "@noble/hashes/utils";
import { ProofError, TooFewWitnessesError } from "../errors.js";
import { fromHex, sameBytes } from "../hex.js";
import { verifySignature } from "../key.js";
import type { Schemas } from "../schema.js";
import type { TreeHead } from "./head.js";
import { type Keys, MAX_WITNESSES } from "./keys.js";

const ORIGIN = "tallystick.settlement/v2/";
/** The latest time that a cosignature may name, in seconds since the Unix epoch (tlog-cosignature, "Format"). */
const MAX_TIME_S = (1n << 63n) - 1n;

/** An institution that cosigned a head. */
export interface Witness {
  readonly participant: number;
  /** By the keys. */
  readonly bic: string;
  /** When it signed, by its own clock, in seconds since the Unix epoch. */
  readonly timeS: bigint;
}

/** How many witnesses are asked for. */
export interface WitnessOptions {
  /** How many, where that is more than the keys say. The operator is not counted. */
  readonly witnesses?: number;
}

/** What a witness signs at that time: the head without its time, for that network. */
export function cosignedBytes(head: TreeHead, network: string, timeS: bigint): Uint8Array {
  const root = Buffer.from(head.root).toString("base64");
  return utf8ToBytes(`cosignature/v1\ntime ${timeS}\n${ORIGIN}${network}\n${head.size}\n${root}\n`);
}

/**
 * The institutions that witnessed a head, by participant: at least as many as the keys ask for, and as `witnesses` says.
 *
 * The operator is none of them, as its cosignature says no more than its signature; institutions with one key are one. Every
 * cosignature that is there is checked, whether or not any is asked for.
 *
 * @throws {TooFewWitnessesError} when fewer institutions cosigned the head
 * @throws {ProofError} when a cosignature is not what it says
 */
export function verifyCosignatures(
  head: TreeHead,
  cosignatures: readonly Schemas["HeadCosignature"][],
  keys: Keys,
  { witnesses: atLeast = 0 }: WitnessOptions = {},
): Witness[] {
  // Before any signature is verified: what others hand over must not cost more than it can show.
  if (cosignatures.length > Math.min(MAX_WITNESSES, keys.institutions.length)) {
    throw new ProofError(
      "form",
      `there are ${cosignatures.length} cosignatures on the tree head, more than there can be`,
    );
  }
  const seen = new Map<number, Uint8Array>();
  const witnesses: Witness[] = [];
  for (const { participant, time_s: timeS, signature } of cosignatures) {
    const institution = keys.institution(participant);
    if (institution === null) {
      throw new ProofError(
        "unknown-institution",
        `participant ${participant} cosigned the tree head, and the keys do not name it`,
      );
    }
    const { bic, key } = institution;
    if (seen.has(participant)) throw new ProofError("twice", `the cosignature of ${bic} is there twice`);
    const bytes = fromHex(signature, "a cosignature", 64);
    if (timeS > MAX_TIME_S || !verifySignature(key, cosignedBytes(head, keys.network, timeS), bytes)) {
      throw new ProofError(
        "cosignature",
        `${bic} did not cosign the tree head of ${head.size} records for this network at this time`,
      );
    }
    const counts = [keys.operator, ...seen.values()].every((other) => !sameBytes(key, other));
    if (counts) witnesses.push({ participant, bic, timeS });
    seen.set(participant, key);
  }
  const wanted = Math.max(keys.witnesses, atLeast);
  // Also where the caller's number is none.
  if (!(witnesses.length >= wanted)) throw new TooFewWitnessesError(head.size, wanted, witnesses.length);
  return witnesses.sort((one, other) => one.participant - other.participant);
}
