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
  ForeignTransactionError,
  KIND,
  type Leg,
  newOrder,
  newTransaction,
  participantsOf,
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
  network: "07".repeat(32),
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
  const id = "6e176d014c1cf5846647d4508c52c40798002f7fe91322461766e6cad3313b11";
  assert.equal(toHex(transactionId(known)), id);
});

test("an id commits to every part but the signatures", () => {
  const id = toHex(transactionId(known));
  assert.equal(toHex(transactionId(sign(known, key))), id);
  const [first, second] = known.legs;
  assert.ok(first && second);
  const changes: Partial<Transaction>[] = [
    { kind: KIND.issue },
    { network: "08".repeat(32) },
    // The first bytes are those that a batch has.
    { network: `${known.network.slice(0, 62)}00` },
    { order: { ...open, participant: 5 } },
    { expiry: 1001n },
    { uetr: "03010101-0101-0101-0101-010101010101" },
    { details: hash(bytes(1, 1)) },
    { seed: bytes(16, 3) },
    { legs: [first, { ...second, amount: 101n }] },
    { legs: [second, first] },
    { legs: [first, { ...second, participant: 1 }] },
  ];
  for (const change of changes) {
    assert.notEqual(toHex(transactionId({ ...known, ...change })), id, Object.keys(change).join());
  }
});

test("a signature is over the id, and of the key that is named", () => {
  const [signer] = sign(known, key).signers;
  assert.ok(signer);
  assert.ok(verifySignature(key.publicKey, transactionId(known), signer.signature));
  assert.ok(
    !verifySignature(key.publicKey, transactionId({ ...known, network: "08".repeat(32) }), signer.signature),
  );
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
  assert.deepEqual(decodeBatch(whole, terms.network), batch);
  assert.deepEqual(decodeOne(encodeOne(known), terms.network), known);
  for (let length = 0; length < whole.length; length++) {
    assert.throws(() => decodeBatch(whole.slice(0, length), terms.network), DecodeError, String(length));
  }
  assert.throws(() => decodeBatch(Uint8Array.of(...whole, 0), terms.network), DecodeError);
  assert.throws(() => decodeOne(toHex(whole), terms.network), ArgumentError);
});

test("any bytes are an error, or a batch that is written as the same bytes", () => {
  const whole = encodeBatch(batch);
  fc.assert(
    fc.property(fc.nat(whole.length - 1), fc.nat(255), (at, byte) => {
      const changed = whole.slice();
      changed[at] = byte;
      try {
        assert.equal(toHex(encodeBatch(decodeBatch(changed, terms.network))), toHex(changed));
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
  assert.throws(() => decodeBatch(one, terms.network), /disagree/);
  assert.throws(() => encodeBatch([{ ...known, order: open }]), ArgumentError);
  assert.throws(() => encodeBatch([{ ...newOrder(terms, open), legs: known.legs }]), ArgumentError);
});

test("a batch has the first bytes of its network, and ids have all", () => {
  const data = encodeBatch([known]);
  // version, four counts, then kind, legs, participants and signers of the header
  assert.equal(toHex(data.slice(21, 25)), terms.network.slice(0, 8));
  const near = terms.network.slice(0, 8).padEnd(64, "0");
  const [taken] = decodeBatch(data, near);
  assert.ok(taken);
  assert.notEqual(toHex(transactionId(taken)), toHex(transactionId(known)));
  assert.throws(() => decodeBatch(data, "00".repeat(32)), ForeignTransactionError);
  assert.throws(() => decodeBatch(data, "7a110001"), DecodeError);
});

test("a header counts its participants", () => {
  for (const transaction of [known, newOrder(terms, open)]) {
    const data = encodeBatch([transaction]);
    for (const count of [0, 2, 3, 255]) {
      data[19] = count;
      assert.throws(() => decodeBatch(data, terms.network), /participants/, String(count));
    }
  }
});

test("the participants are those with a leg, or of the order", () => {
  assert.deepEqual(participantsOf(known), [0]);
  assert.deepEqual(participantsOf(newOrder(terms, open)), [1]);
  assert.deepEqual(
    participantsOf({ legs: [leg(10, 1, 1n), leg(9, 1, 1n), leg(10, 2, -2n)], order: null }),
    [9, 10],
  );
  const many = Array.from({ length: 31 }, (_, at) => leg(at, 1, 1n));
  assert.equal(transactionId({ ...known, legs: many.slice(1) }).length, 32);
  for (const legs of [many, []]) {
    assert.throws(() => sign({ ...known, legs }, key), /1 to 30 participants/);
  }
});

test("what does not fit its field is an argument error", () => {
  for (const change of [{ expiry: -1n }, { kind: 256 }, { seed: bytes(15, 0) }, { uetr: "x" }]) {
    assert.throws(() => transactionId({ ...known, ...change }), ArgumentError, Object.keys(change).join());
  }
  for (const network of ["7a110001", "0A".repeat(32), "", `${known.network}00`, 7 as unknown as string]) {
    assert.throws(() => transactionId({ ...known, network }), /64 lower-case hexadecimal digits/);
  }
});
