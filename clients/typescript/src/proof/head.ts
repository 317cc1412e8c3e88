/** Tree heads: the state of the operator's log at one moment, under the operator's signature. */

import { ProofError } from "../errors.js";
import { domain } from "../hash.js";
import { fromHex } from "../hex.js";
import { verifySignature } from "../key.js";
import type { Schemas } from "../schema.js";
import { verifyConsistency } from "./tree.js";

const DOMAIN = domain("tallystick 2026 log tree head v1");

/** The state of a log (RFC 9162, section 4.10). */
export interface TreeHead {
  /** Number of entries. */
  readonly size: bigint;
  /** Root over them, 32 bytes. */
  readonly root: Uint8Array;
  /** When it was made, in milliseconds since the Unix epoch. */
  readonly timestampMs: bigint;
}

/** The bytes that are signed: a domain tag (32), size (8), timestamp (8), root (32); integers big-endian. */
export function headBytes(head: TreeHead): Uint8Array {
  const bytes = new Uint8Array(80);
  bytes.set(DOMAIN);
  const view = new DataView(bytes.buffer);
  view.setBigUint64(32, head.size);
  view.setBigUint64(40, head.timestampMs);
  bytes.set(head.root, 48);
  return bytes;
}

/**
 * The head, if the holder of the key signed it.
 *
 * @throws {ProofError} when they did not
 */
export function verifyTreeHead(signed: Schemas["SignedTreeHead"], operator: Uint8Array): TreeHead {
  const { size, timestamp_ms: timestampMs } = signed.head;
  const head = { size, timestampMs, root: fromHex(signed.head.root, "the tree head's root", 32) };
  if (
    !verifySignature(operator, headBytes(head), fromHex(signed.signature, "the tree head's signature", 64))
  ) {
    throw new ProofError("head", `the operator did not sign the tree head of ${size} records`);
  }
  return head;
}

/**
 * Checks that both heads are the operator's and that the later log begins with the whole of the earlier one
 * (RFC 9162, section 2.1.4). With `heads`, such as those of two proofs: that it is about these.
 *
 * @throws {ProofError} when either is not shown
 */
export function verifyConsistencyProof(
  consistency: Schemas["Consistency"],
  operator: Uint8Array,
  heads: readonly Schemas["SignedTreeHead"][] = [],
): void {
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
  const first = verifyTreeHead(consistency.first, operator);
  const second = verifyTreeHead(consistency.second, operator);
  const path = consistency.path.map((hash) => fromHex(hash, "a hash of the path", 32));
  verifyConsistency(first.size, first.root, second.size, second.root, path);
  if (second.timestampMs < first.timestampMs) {
    throw new ProofError("time", "the later tree head is older than the earlier one");
  }
}
