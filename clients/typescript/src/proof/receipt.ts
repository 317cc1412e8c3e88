/** Receipts: proof that a decision has its place in the operator's log. */

import { ProofError } from "../errors.js";
import { domain, keyed } from "../hash.js";
import { fromHex } from "../hex.js";
import { isVerdict } from "../refusal.js";
import type { Schemas } from "../schema.js";
import { Writer } from "../wire.js";
import { type LogKeys, type TreeHead, verifyTreeHead } from "./head.js";
import type { Keys } from "./keys.js";
import { batchNode, logLeaf, logNode, verifyInclusion } from "./tree.js";
import { verifyCosignatures, type WitnessOptions } from "./witness.js";

/** `BLAKE3_keyed(LEAF, id (32) ‖ sequence (8) ‖ verdict (2) ‖ 0 (22))` is the leaf of a decision. */
const LEAF_KEY = domain("tallystick 2026 decision leaf 01");

/**
 * Checks a receipt: that `receipt.id` was decided so, at that place, and that as many institutions as the keys or `witnesses` ask
 * for cosigned the head that shows it, which it returns. It says nothing of which payment that is: compare `receipt.id` with the id
 * of what was signed.
 *
 * @throws {TooFewWitnessesError} when fewer institutions cosigned the head
 * @throws {ProofError} when it proves nothing
 */
export function verifyReceipt(
  receipt: Schemas["Receipt"],
  keys: Keys,
  options: WitnessOptions = {},
): TreeHead {
  const head = verifyPlace(receipt, keys);
  verifyCosignatures(head, receipt.cosignatures ?? [], keys, options);
  return head;
}

/** As {@link verifyReceipt}, whoever cosigned the head: what the operator alone signed. @throws {ProofError} */
export function verifyPlace(receipt: Schemas["Receipt"], keys: LogKeys): TreeHead {
  if (!isVerdict(receipt.verdict)) throw new ProofError("form", "the verdict is none");
  const hashes = (texts: readonly string[]) => texts.map((text) => fromHex(text, "a hash of a path", 32));
  const root = fromHex(receipt.root, "the batch's root", 32);
  const decision = new Writer().exactly(32, fromHex(receipt.id, "the id", 32));
  decision.u64(receipt.sequence).u16(receipt.verdict).zeros(22);
  const leaf = keyed(LEAF_KEY, decision.finish());
  const position = receipt.sequence - receipt.first;
  verifyInclusion(batchNode, root, BigInt(receipt.count), position, leaf, hashes(receipt.decision_path));

  const batch = new Writer().bytes(root).u64(receipt.first).u32(receipt.count);
  batch.u64(receipt.scheduler).u64(receipt.batch).u64(receipt.timestamp);
  const head = verifyTreeHead(receipt.head, keys);
  verifyInclusion(
    logNode,
    head.root,
    head.size,
    receipt.leaf,
    logLeaf(batch.finish()),
    hashes(receipt.tree_path),
  );
  if (head.timestampMs < receipt.timestamp) {
    // A log's clock never goes back.
    throw new ProofError("time", "the tree head was signed before the decision was made");
  }
  return head;
}
