import assert from "node:assert/strict";
import test from "node:test";
import fc from "fast-check";
import {
  type AccountOrder,
  ArgumentError,
  DecodeError,
  decodeBatch,
  decodeOne,
  encodeBatch,
  encodeOne,
  KIND,
  type Leg,
  newOrder,
  newTransaction,
  SigningKey,
  sign,
  type Transaction,
  transactionId,
  verifySignature,
} from "../src/index.js";
import { hash } from "../src/hash.js";
import { fromHex, toHex } from "../src/hex.js";

const leg = (participant: number, account: number, amount: bigint): Leg => ({
  participant,
  asset: 0,
  account,
  amount,
});
const bytes = (length: number, byte: number) => new Uint8Array(length).fill(byte);
const terms = {
  network: 7,
  uetr: "01010101-0101-0101-0101-010101010101",
  expiry: 1000n,
  details: bytes(32, 0),
  seed: bytes(16, 2),
};
const known = newTransaction(KIND.transfer, terms, [leg(0, 1, -100n), leg(0, 2, 100n)]);
const key = SigningKey.fromSeed(bytes(32, 9));
const open: AccountOrder = {
  participant: 1,
  number: 3,
  action: "open",
  count: 1,
  asset: 0,
  owner: SigningKey.fromSeed(bytes(32, 1)).publicKey,
  floor: -5n,
  alias: "DE89370400440532013000",
};

test("the id of a known transaction", () => {
  const id = "b67d7cf277e0e5fee2fc1daac6227931ad0dfdff96401d8500cbe8907899cfdd";
  assert.equal(toHex(transactionId(known)), id);
});

test("an id commits to every part but the signatures", () => {
  const id = toHex(transactionId(known));
  assert.equal(toHex(transactionId(sign(known, key))), id);
  const [first, second] = known.legs;
  assert.ok(first && second);
  const changes: Partial<Transaction>[] = [
    { kind: KIND.issue },
    { participants: 2 },
    { network: 8 },
    { expiry: 1001n },
    { uetr: "03010101-0101-0101-0101-010101010101" },
    { details: hash(bytes(1, 1)) },
    { seed: bytes(16, 3) },
    { legs: [first, { ...second, amount: 101n }] },
    { legs: [second, first] },
  ];
  for (const change of changes) {
    assert.notEqual(toHex(transactionId({ ...known, ...change })), id, Object.keys(change).join());
  }
});

test("a signature is over the id, and of the key that is named", () => {
  const [signer] = sign(known, key).signers;
  assert.ok(signer);
  assert.ok(verifySignature(key.publicKey, transactionId(known), signer.signature));
  assert.ok(!verifySignature(key.publicKey, transactionId({ ...known, network: 8 }), signer.signature));
  assert.ok(!verifySignature(SigningKey.generate().publicKey, transactionId(known), signer.signature));
});

const orders: AccountOrder[] = [
  open,
  { ...open, alias: "" },
  { ...open, alias: "émile" },
  { participant: 1, number: 3, action: "freeze" },
  { participant: 1, number: 3, action: "release" },
  { participant: 1, number: 3, action: "close" },
  { participant: 1, number: 3, action: "set-floor", floor: -500n },
];
const batch = [sign(known, key), ...orders.map((order) => sign(newOrder(terms, order), key)), known];

test("what is written is read, and nothing shorter or longer", () => {
  const whole = encodeBatch(batch);
  assert.deepEqual(decodeBatch(whole), batch);
  assert.deepEqual(decodeOne(encodeOne(known)), known);
  for (let length = 0; length < whole.length; length++) {
    assert.throws(() => decodeBatch(whole.slice(0, length)), DecodeError, String(length));
  }
  assert.throws(() => decodeBatch(Uint8Array.of(...whole, 0)), DecodeError);
  assert.throws(() => decodeOne(toHex(whole)), ArgumentError);
});

test("any bytes are an error, or a batch that is written as the same bytes", () => {
  const whole = encodeBatch(batch);
  fc.assert(
    fc.property(fc.nat(whole.length - 1), fc.nat(255), (at, byte) => {
      const changed = whole.slice();
      changed[at] = byte;
      try {
        assert.equal(toHex(encodeBatch(decodeBatch(changed))), toHex(changed));
      } catch (error) {
        assert.ok(error instanceof DecodeError, String(error));
      }
    }),
    { numRuns: 2000 },
  );
});

test("counts that disagree with the columns are refused", () => {
  const one = fromHex(encodeOne(known));
  // version, four counts, then kind and legs of the header
  one[18] = 3;
  assert.throws(() => decodeBatch(one), /disagree/);
  assert.throws(() => encodeBatch([{ ...known, order: open }]), ArgumentError);
});

test("what does not fit its field is an argument error", () => {
  for (const change of [
    { network: 2 ** 32 },
    { expiry: -1n },
    { kind: 256 },
    { seed: bytes(15, 0) },
    { uetr: "x" },
  ]) {
    assert.throws(() => transactionId({ ...known, ...change }), ArgumentError, Object.keys(change).join());
  }
});
