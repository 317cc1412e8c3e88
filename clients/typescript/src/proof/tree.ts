/** Paths in trees of the shape of RFC 9162, section 2.1, whatever their hash. */

import { ProofError } from "../errors.js";

import { keyed, sha256 } from "../hash.js";
import { fromHex, sameBytes } from "../hex.js";

/** Hashes a node from its children. */
export type NodeHash = (left: Uint8Array, right: Uint8Array) => Uint8Array;

/** `BLAKE3-derive-key("tallystick 2026 merkle node v1", "")` */
const NODE_KEY = fromHex("156c66e7f5c5ff0e5a4e28e5c10dcb1fbba6426a8dd0f531bf41466b70080ff1");

/** A node of the tree over a batch: BLAKE3 under a key of its own, so that no leaf can be taken for it. */
export const batchNode: NodeHash = (left, right) => {
  const input = new Uint8Array(64);
  input.set(left);
  input.set(right, 32);
  return keyed(NODE_KEY, input);
};

/** A node of the operator's log: `SHA-256(0x01 ‖ left ‖ right)` (RFC 9162, section 2.1.1). */
export const logNode: NodeHash = (left, right) => sha256(Uint8Array.of(1), left, right);

/** A leaf of the operator's log: `SHA-256(0x00 ‖ data)` (RFC 9162, section 2.1.1). */
export function logLeaf(data: Uint8Array): Uint8Array {
  return sha256(Uint8Array.of(0), data);
}

function wrongPath(problem: string): ProofError {
  return new ProofError("path", problem);
}

/**
 * Checks that `leaf` is number `index` of the `count` leaves under `root` (RFC 9162, section 2.1.3.2).
 *
 * @param path from the leaf to the root, from below
 * @throws {ProofError} when it is not shown
 */
export function verifyInclusion(
  node: NodeHash,
  root: Uint8Array,
  count: bigint,
  index: bigint,
  leaf: Uint8Array,
  path: readonly Uint8Array[],
): void {
  if (index < 0n || index >= count) throw wrongPath(`leaf ${index} is outside a tree of ${count} leaves`);
  let [position, last, used, current] = [index, count - 1n, 0, leaf];
  for (; last > 0n; [position, last] = [position >> 1n, last >> 1n]) {
    const isRight = position % 2n === 1n;
    // An odd last node has no sibling: it moves up unchanged.
    if (!isRight && position === last) continue;
    const sibling = path[used++];
    if (sibling === undefined) throw wrongPath("the path is too short for the tree's shape");
    current = isRight ? node(sibling, current) : node(current, sibling);
  }
  if (used !== path.length) throw wrongPath("the path is too long for the tree's shape");
  if (!sameBytes(current, root)) throw wrongPath("the path does not lead to the root");
}

/**
 * Checks that the log of `second` entries begins with the log of `first` entries (RFC 9162, section 2.1.4.2). Everything
 * begins with the empty log: then the path is empty.
 *
 * @throws {ProofError} when it is not shown
 */
export function verifyConsistency(
  first: bigint,
  firstRoot: Uint8Array,
  second: bigint,
  secondRoot: Uint8Array,
  path: readonly Uint8Array[],
): void {
  if (first > second) throw wrongPath(`a log of ${second} entries cannot begin with one of ${first}`);
  const must = (holds: boolean, problem: string) => {
    if (!holds) throw wrongPath(problem);
  };
  if (first === 0n || first === second) {
    must(path.length === 0, "the path is too long for the tree's shape");
    must(sameBytes(firstRoot, first === 0n ? sha256() : secondRoot), "the roots differ");
    return;
  }
  // The largest complete subtree that ends where the first log ends; where that is the whole first log, its hash is the
  // root and not part of the path.
  let [position, last] = [first - 1n, second - 1n];
  while (position % 2n === 1n) [position, last] = [position >> 1n, last >> 1n];
  const isWhole = position === 0n;
  const start = isWhole ? firstRoot : path[0];
  if (start === undefined) throw wrongPath("the path is too short for the tree's shape");
  let [impliedFirst, impliedSecond] = [start, start];
  for (const sibling of isWhole ? path : path.slice(1)) {
    must(last > 0n, "the path is too long for the tree's shape");
    if (position % 2n === 1n || position === last) {
      impliedFirst = logNode(sibling, impliedFirst);
      impliedSecond = logNode(sibling, impliedSecond);
      while (position % 2n === 0n && position > 0n) [position, last] = [position >> 1n, last >> 1n];
    } else {
      impliedSecond = logNode(impliedSecond, sibling);
    }
    [position, last] = [position >> 1n, last >> 1n];
  }
  must(last === 0n, "the path is too short for the tree's shape");
  must(sameBytes(impliedFirst, firstRoot), "the path does not lead to the earlier root");
  must(sameBytes(impliedSecond, secondRoot), "the path does not lead to the later root");
}
