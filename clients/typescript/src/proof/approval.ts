/**
 * Approvals: an institution's answer to one transaction, out of a batch of answers under one signature.
 *
 * ```text
 * leaf      = BLAKE3_keyed(LEAF, id (32) ‖ index (4) ‖ verdict (2) ‖ 0 (26))
 * key       = BLAKE3_derive_key("tallystick settlement v2 approval", network id (32))
 * statement = BLAKE3_keyed(key, root (32) ‖ batch (8) ‖ scheduler (8) ‖ participant (2) ‖ batch length (4) ‖ 0 (10))
 * ```
 *
 * The institution signs the 32 bytes of the statement.
 */

import { ProofError } from "../errors.js";
import { domain, keyed, networkKey } from "../hash.js";
import { fromHex } from "../hex.js";
import { verifySignature } from "../key.js";
import type { Schemas } from "../schema.js";
import { Writer } from "../wire.js";
import { batchNode } from "./tree.js";

const statementKey = networkKey("tallystick settlement v2 approval");
const LEAF_KEY = domain("tallystick 2026 approval leaf 02");
/** Batches have at most 2^16 transactions. */
const MAX_PATH = 16;

/** What an approval has to be about. */
export interface About {
  /** The network's id: 64 lower-case hexadecimal digits. */
  readonly network: string;
  /** The transaction's, which commits to who must answer for it, and until when. */
  readonly id: Uint8Array;
  /** The scheduler that accepted it. */
  readonly scheduler: bigint;
  /** Which batch of that scheduler it was accepted in. */
  readonly batch: bigint;
}

/**
 * Checks that the holder of `key` gave this answer to that transaction of that batch.
 *
 * @throws {ProofError} when it is about something else or not signed by that key
 */
export function verifyApproval(approval: Schemas["Approval"], about: About, key: Uint8Array): void {
  if (approval.index >= approval.batch_len || approval.path.length > MAX_PATH) {
    throw new ProofError("form", "its numbers do not belong together");
  }
  const answer = new Writer().exactly(32, about.id).u32(approval.index).u16(approval.verdict).zeros(26);
  const root = approval.path.reduce(
    (below, sibling) => {
      if ("left" in sibling) return batchNode(fromHex(sibling.left, "a sibling", 32), below);
      return batchNode(below, fromHex(sibling.right, "a sibling", 32));
    },
    keyed(LEAF_KEY, answer.finish()),
  );
  const statement = new Writer().exactly(32, root).u64(about.batch).u64(about.scheduler);
  statement.u16(approval.participant).u32(approval.batch_len).zeros(10);
  const signature = fromHex(approval.signature, "a signature", 64);
  if (!verifySignature(key, keyed(statementKey(about.network), statement.finish()), signature)) {
    throw new ProofError("approval", "the institution did not sign this answer to this transaction");
  }
}
