import assert from "node:assert/strict";
import test from "node:test";
import { Keys, ProofError, SigningKey, verifyConsistencyProof, verifyTreeHead } from "../src/index.js";
import { sha256 } from "../src/hash.js";
import { fromHex, toHex } from "../src/hex.js";
import { headBytes } from "../src/proof/head.js";
import { logLeaf, logNode, verifyConsistency, verifyInclusion } from "../src/proof/tree.js";

/** The entries of the RFC 6962 reference tests. */
const ENTRIES = [
  "",
  "00",
  "10",
  "2021",
  "3031",
  "40414243",
  "5051525354555657",
  "606162636465666768696a6b6c6d6e6f",
];
const ROOTS = [
  "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
  "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
  "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
  "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
  "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
  "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
  "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
  "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
  "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
];

/** RFC 9162, section 2.1.1, word for word. */
function root(leaves: readonly Uint8Array[]): Uint8Array {
  const [only] = leaves;
  if (only === undefined) return sha256();
  if (leaves.length === 1) return only;
  const split = splitOf(leaves.length);
  return logNode(root(leaves.slice(0, split)), root(leaves.slice(split)));
}

function splitOf(size: number): number {
  return 2 ** Math.floor(Math.log2(size - 1));
}

/** `PATH` of RFC 9162, section 2.1.3.1, word for word. */
function inclusion(index: number, leaves: readonly Uint8Array[]): Uint8Array[] {
  if (leaves.length <= 1) return [];
  const split = splitOf(leaves.length);
  const [left, right] = [leaves.slice(0, split), leaves.slice(split)];
  return index < split
    ? [...inclusion(index, left), root(right)]
    : [...inclusion(index - split, right), root(left)];
}

/** `SUBPROOF` of RFC 9162, section 2.1.4.1, word for word. */
function consistency(first: number, leaves: readonly Uint8Array[], known = true): Uint8Array[] {
  if (first === leaves.length) return known ? [] : [root(leaves)];
  const split = splitOf(leaves.length);
  const [left, right] = [leaves.slice(0, split), leaves.slice(split)];
  return first <= split
    ? [...consistency(first, left, known), root(right)]
    : [...consistency(first - split, right, false), root(left)];
}

/** Everything that can be wrong with a path by one hash or bit. */
function tampered(path: readonly Uint8Array[]): Uint8Array[][] {
  const longer = [...path, new Uint8Array(32)];
  const wrong = path.flatMap((hash, at) => {
    const bit = hash.slice();
    bit[at % 32] = (bit[at % 32] ?? 0) ^ 1;
    return [
      [...path.slice(0, at), bit, ...path.slice(at + 1)],
      [...path.slice(0, at), ...path.slice(at + 1)],
      [...path.slice(0, at), hash, ...path.slice(at)],
    ];
  });
  return [longer, ...wrong];
}

const isProof = (run: () => void) => {
  try {
    run();
    return true;
  } catch (error) {
    assert.ok(error instanceof ProofError);
    return false;
  }
};

test("the reference roots of RFC 6962", () => {
  const leaves = ENTRIES.map((entry) => logLeaf(fromHex(entry)));
  ROOTS.forEach((expected, size) => {
    assert.equal(toHex(root(leaves.slice(0, size))), expected);
  });
});

const LEAVES = Array.from({ length: 24 }, (_, at) => logLeaf(Uint8Array.of(at)));

test("every inclusion path verifies, and no other does", () => {
  for (let size = 1; size <= LEAVES.length; size++) {
    const leaves = LEAVES.slice(0, size);
    const top = root(leaves);
    leaves.forEach((leaf, index) => {
      const path = inclusion(index, leaves);
      const verify = (at: number, path: readonly Uint8Array[]) =>
        isProof(() => {
          verifyInclusion(logNode, top, BigInt(size), BigInt(at), leaf, path);
        });
      assert.ok(verify(index, path), `${index} of ${size}`);
      for (const wrong of tampered(path)) assert.ok(!verify(index, wrong), `${index} of ${size}`);
      assert.ok(!verify(index + 1, path) && !verify(size, path) && !verify(-1, path));
    });
  }
});

test("every consistency path verifies, and no other does", () => {
  for (let second = 0; second <= LEAVES.length; second++) {
    for (let first = 0; first <= second; first++) {
      const [early, late] = [root(LEAVES.slice(0, first)), root(LEAVES.slice(0, second))];
      const path = first === 0 ? [] : consistency(first, LEAVES.slice(0, second));
      const verify = (firstRoot: Uint8Array, path: readonly Uint8Array[]) =>
        isProof(() => {
          verifyConsistency(BigInt(first), firstRoot, BigInt(second), late, path);
        });
      assert.ok(verify(early, path), `${first} to ${second}`);
      for (const wrong of tampered(path)) assert.ok(!verify(early, wrong), `${first} to ${second}`);
      assert.ok(!verify(new Uint8Array(32), path));
    }
  }
  assert.ok(
    !isProof(() => {
      verifyConsistency(3n, root(LEAVES.slice(0, 3)), 2n, root(LEAVES.slice(0, 2)), []);
    }),
  );
});

const key = SigningKey.fromSeed(new Uint8Array(32).fill(3));
const NETWORK = "a5".repeat(32);
const keys = new Keys(NETWORK, key.publicKey, []);

function signedHead(size: number, timestampMs = 1_767_225_600_000n + BigInt(size), leaves = LEAVES) {
  const head = { size: BigInt(size), root: root(leaves.slice(0, size)), timestampMs };
  return {
    head: { size: head.size, root: toHex(head.root), timestamp_ms: timestampMs },
    signature: toHex(key.sign(headBytes(head, NETWORK))),
  };
}

test("the golden tree head of the crate", () => {
  const [, , , , , , , , eighth = ""] = ROOTS;
  const signed = {
    head: { size: 8n, root: eighth, timestamp_ms: 1_767_225_600_000n },
    signature:
      "bed0a32f4d007de901a01ba4fe01f23169cd701458de0a4295f782901af92594" +
      "ea3d9ebbe52673b95e7f347852a6a8e43bee4ca5bb3d9a4c8849e989b6bb3a03",
  };
  assert.equal(verifyTreeHead(signed, keys).size, 8n);
  const again = key.sign(
    headBytes({ size: 8n, root: fromHex(eighth), timestampMs: 1_767_225_600_000n }, NETWORK),
  );
  assert.equal(toHex(again), signed.signature);
  assert.throws(() => verifyTreeHead({ ...signed, head: { ...signed.head, size: 9n } }, keys), ProofError);
  assert.throws(
    () => verifyTreeHead(signed, { operator: keys.operator, network: "00".repeat(32) }),
    ProofError,
  );
  assert.throws(
    () => verifyTreeHead(signed, { network: NETWORK, operator: key.publicKey.map((byte) => byte ^ 1) }),
    ProofError,
  );
});

test("two heads are of one log, or not", () => {
  const path = consistency(5, LEAVES.slice(0, 9)).map(toHex);
  const shown = { first: signedHead(5), second: signedHead(9), path };
  const fault = (run: () => void) => {
    try {
      run();
      return "none";
    } catch (error) {
      return error instanceof ProofError ? error.fault : String(error);
    }
  };
  const verify = (consistency: typeof shown, heads: (typeof shown.first)[] = []) =>
    fault(() => {
      verifyConsistencyProof(consistency, keys, heads);
    });
  assert.equal(verify(shown, [signedHead(5), signedHead(9)]), "none");
  assert.equal(verify(shown, [signedHead(7)]), "other-head");
  assert.equal(verify({ ...shown, first: { ...shown.first, signature: shown.second.signature } }), "head");
  assert.equal(verify({ ...shown, second: signedHead(9, 1n) }), "time");
  const forked = [...LEAVES.slice(0, 2), logLeaf(Uint8Array.of(99)), ...LEAVES.slice(3)];
  assert.equal(verify({ ...shown, second: signedHead(9, undefined, forked) }), "path");
});
