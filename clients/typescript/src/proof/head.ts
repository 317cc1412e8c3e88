/** Tree heads: the state of the operator's log at one moment, under the operator's signature. */

import { ProofError } from "../errors.js";
import { domain } from "../hash.js";
import { fromHex, networkIdBytes } from "../hex.js";
import { verifySignature } from "../key.js";
import type { Schemas } from "../schema.js";
import type { Keys } from "./keys.js";
import { verifyConsistency } from "./tree.js";
import { verifyCosignatures, type Witness, type WitnessOptions } from "./witness.js";

const DOMAIN = domain("tallystick 2026 log tree head v2");

/** The state of a log (RFC 9162, section 4.10). */
export interface TreeHead {
  /** Number of entries. */
  readonly size: bigint;
  /** Root over them, 32 bytes. */
  readonly root: Uint8Array;
  /** When it was made, in milliseconds since the Unix epoch. */
  readonly timestampMs: bigint;
}

/** Of which network, and whose signature counts: any {@link Keys} are. */
export type LogKeys = Pick<Keys, "network" | "operator">;

/** The bytes that are signed: a domain tag (32), the network's id (32), size (8), timestamp (8), root (32); big-endian. */
export function headBytes(head: TreeHead, network: string): Uint8Array {
  const bytes = new Uint8Array(112);
  bytes.set(DOMAIN);
  bytes.set(networkIdBytes(network), 32);
  const view = new DataView(bytes.buffer);
  view.setBigUint64(64, head.size);
  view.setBigUint64(72, head.timestampMs);
  bytes.set(head.root, 80);
  return bytes;
}

/**
 * The head, if the operator signed it for that network.
 *
 * @throws {ProofError} when it did not
 */
export function verifyTreeHead(signed: Schemas["SignedTreeHead"], { network, operator }: LogKeys): TreeHead {
  const { size, timestamp_ms: timestampMs } = signed.head;
  const head = { size, timestampMs, root: fromHex(signed.head.root, "the tree head's root", 32) };
  const signature = fromHex(signed.signature, "the tree head's signature", 64);
  if (!verifySignature(operator, headBytes(head, network), signature)) {
    throw new ProofError(
      "head",
      `the operator did not sign the tree head of ${size} records for network ${network}`,
    );
  }
  return head;
}

/** The institutions that cosigned two heads of one log, by participant; the operator is none of them. */
export interface WitnessedHeads {
  /** Those of the earlier head. */
  readonly first: readonly Witness[];
  /** Those of the later head. */
  readonly second: readonly Witness[];
}

/**
 * Checks that both heads are the operator's, that the later log begins with the whole of the earlier one
 * (RFC 9162, section 2.1.4), and that as many institutions as are asked for cosigned each of them. With `heads`, such as those of
 * two proofs: that it is about these. Returns which institutions cosigned them.
 *
 * @throws {TooFewWitnessesError} when fewer institutions than the keys or `witnesses` ask for cosigned a head
 * @throws {ProofError} when any of that is not shown
 */
export function verifyConsistencyProof(
  consistency: Schemas["Consistency"],
  keys: Keys,
  heads: readonly Schemas["SignedTreeHead"][] = [],
  options: WitnessOptions = {},
): WitnessedHeads {
  for (const { head } of heads) {
    const shown = [consistency.first, consistency.second].some(
      ({ head: { size, root, timestamp_ms } }) =>
        size === head.size &&
        root.toLowerCase() === head.root.toLowerCase() &&
        timestamp_ms === head.timestamp_ms,
    );
    if (!shown) {
      throw new ProofError(
        "other-head",
        `it is not about the tree head of ${head.size} records that is at hand`,
      );
    }
  }
  const first = verifyTreeHead(consistency.first, keys);
  const second = verifyTreeHead(consistency.second, keys);
  const witnessed = {
    first: verifyCosignatures(first, consistency.first_cosignatures ?? [], keys, options),
    second: verifyCosignatures(second, consistency.second_cosignatures ?? [], keys, options),
  };
  const path = consistency.path.map((hash) => fromHex(hash, "a hash of the path", 32));
  verifyConsistency(first.size, first.root, second.size, second.root, path);
  if (second.timestampMs < first.timestampMs) {
    throw new ProofError("time", "the later tree head is older than the earlier one");
  }
  return witnessed;
}
