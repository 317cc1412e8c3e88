import assert from "node:assert/strict";
import test from "node:test";
import fc from "fast-check";
import { blake3 } from "@noble/hashes/blake3";
import {
  formatJson,
  formatProof,
  fromHex,
  Keys,
  parseJson,
  parseProof,
  TallystickError,
  toHex,
  verifyProof,
  verifyReceipt,
} from "../src/index.js";
import { verifyApproval } from "../src/proof/approval.js";
import { contentsId } from "../src/proof/contents.js";
import { conform } from "../src/schema.js";
import type { Json } from "../src/json.js";
import { fault } from "./fault.js";
import { goldenKeys, goldenProof } from "./golden.js";
import { type Made, madeKeys, madeProof } from "./made_proof.js";

const keys = Keys.parse(goldenKeys);
const proof = () => parseProof(goldenProof);

test("the published proof proves what the crate says of it", () => {
  const verified = verifyProof(proof(), keys);
  assert.equal(verified.uetr, "97ed4827-7b6f-4491-a06f-b548d5a7512d");
  assert.equal(verified.refusal, null);
  assert.equal(verified.sequence, 144n);
  assert.equal(verified.timestampMs, 1_750_000_000_020n);
  assert.deepEqual([verified.head.size, verified.head.timestampMs], [50n, 1_750_000_000_049n]);
  assert.deepEqual(
    verified.answers.map(({ bic, refusal }) => [bic, refusal]),
    [
      ["CENTDEFF", null],
      ["BANKDEFF", null],
      ["BANKFRPP", null],
    ],
  );
  assert.deepEqual(verified.legs, [
    { position: 0, leg: { participant: 1, asset: 0, account: 7, amount: -1250n } },
  ]);
  assert.equal(verified.network, keys.network);
  assert.deepEqual([verified.concerned, verified.participants], [[0, 1, 2], 3]);
  // What it does not show, it says.
  assert.deepEqual([verified.hiddenLegs, verified.notShown], [3, 0]);
});

test("a proof is written in the published form", () => {
  assert.equal(formatProof(proof()), goldenProof);
});

type Path = (string | number)[];

/** Paths to every value of a document that has no values in it. */
function leaves(value: Json, at: Path = []): Path[] {
  if (Array.isArray(value)) return value.flatMap((item, n) => leaves(item, [...at, n]));
  if (typeof value !== "object" || value === null) return [at];
  return Object.entries(value).flatMap(([name, item]) => leaves(item, [...at, name]));
}

function flipped(value: Json, bit: number): Json {
  if (typeof value === "bigint") return value ^ (1n << BigInt(bit % 8));
  assert.ok(typeof value === "string");
  const digits = Array.from(value, (digit, at) => (digit === "-" ? [] : [at])).flat();
  const at = digits[Math.floor(bit / 4) % digits.length] ?? 0;
  const digit = (Number.parseInt(value[at] ?? "", 16) ^ (1 << (bit % 4))).toString(16);
  return value.slice(0, at) + digit + value.slice(at + 1);
}

function changed(value: Json, [name, ...rest]: Path, change: (value: Json) => Json): Json {
  if (name === undefined) return change(value);
  if (Array.isArray(value))
    return value.map((item, at) => (at === name ? changed(item, rest, change) : item));
  assert.ok(typeof value === "object" && value !== null);
  return { ...value, [name]: changed(value[name] ?? null, rest, change) };
}

const document = parseJson(goldenProof);
const paths = leaves(document);

function verifiesWithout(path: Path, bit: number): boolean {
  try {
    const value = changed(document, path, (value) => flipped(value, bit));
    verifyProof(conform("Proof", value, { strict: true }), keys, { finality: true });
    return true;
  } catch (error) {
    assert.ok(error instanceof TallystickError, String(error));
    return false;
  }
}

test("every field is proven", () => {
  assert.ok(paths.length > 60, String(paths.length));
  for (const path of paths) {
    for (const bit of [0, 1, 2, 3, 7]) {
      assert.equal(verifiesWithout(path, bit), false, `bit ${bit} of ${path.join(".")} means nothing`);
    }
  }
});

test("every bit is proven", () => {
  fc.assert(
    fc.property(
      fc.nat(paths.length - 1),
      fc.nat(511),
      (field, bit) => !verifiesWithout(paths[field] ?? [], bit),
    ),
    { numRuns: 200 },
  );
});

test("any text is an error or a proof", () => {
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.json()), (text) => {
      assert.throws(() => parseProof(text), TallystickError);
    }),
  );
});

test("a proof with a member that nobody knows is none", () => {
  for (const path of [
    [],
    ["receipt"],
    ["transaction"],
    ["transaction", "legs", 1],
    ["approvals", 0, "path", 0],
  ]) {
    const value = changed(document, path, (value) => ({ ...(value as object), more: 1n }));
    assert.throws(
      () => conform("Proof", value, { strict: true }),
      /more is not known|is missing/,
      path.join("."),
    );
  }
  const both = changed(document, ["transaction", "legs", 1], (leg) => ({ ...(leg as object), shown: {} }));
  assert.throws(() => conform("Proof", both, { strict: true }));
});

test("an approval that is missing is its own outcome", () => {
  const some = { ...proof(), approvals: proof().approvals.slice(1), missing: [] };
  assert.equal(
    fault(() => verifyProof(some, keys)),
    "not-shown",
  );
  const verified = verifyProof(some, keys, { finality: true });
  assert.deepEqual([verified.notShown, verified.answers.length], [1, 2]);
});

test("nobody stands in for another", () => {
  const [first, second, third] = proof().approvals;
  assert.ok(first && second && third);
  const of = (...approvals: (typeof first)[]) =>
    fault(() => verifyProof({ ...proof(), approvals }, keys, { finality: true }));
  assert.equal(of(first, second, third), "none");
  assert.equal(of(first, second, second), "twice");
  assert.equal(of(first, second, third, third), "form");
  assert.equal(of({ ...second, participant: 2 }), "approval");
  assert.equal(of({ ...second, participant: 3 }), "not-concerned");
  assert.equal(of({ ...second, participant: 9 }), "unknown-institution");
  assert.equal(of({ ...second, index: second.batch_len }), "approval");
});

const made = (change: Made) => fault(() => verifyProof(madeProof(change), madeKeys, { finality: true }));

test("who has no part in a payment stands in for nobody, whatever legs are shown", () => {
  for (const shown of [[], [0], [3], [1, 2], [0, 3], [0, 1, 2], [0, 1, 2, 3]]) {
    const verified = verifyProof(madeProof({ shown }), madeKeys);
    assert.deepEqual(
      [verified.legs.length, verified.hiddenLegs, verified.concerned],
      [shown.length, 4 - shown.length, [0, 1, 2]],
    );
    for (const institutions of [[0, 1, 3], [0, 3, 2], [3, 1, 2], [3]]) {
      const answers = institutions.map((participant) => [participant, 0] as const);
      const what = `${String(institutions)} of ${String(shown)}`;
      assert.equal(made({ shown, answers }), "not-concerned", what);
      // Whoever lists the participants otherwise has another transaction.
      const participants = [...new Set([...institutions, 3])].sort();
      assert.match(made({ shown, answers, participants }), /^(id|form)$/, what);
    }
  }
});

test("the participants are those of the legs, in order", () => {
  const lists = [[], [0, 2, 1], [0, 1, 1, 2], [2, 1, 0], Array.from({ length: 31 }, (_, at) => at)];
  for (const shown of [[], [0], [0, 1, 2, 3]]) {
    for (const participants of lists) {
      assert.equal(made({ shown, participants, answers: [] }), "form", String(participants));
    }
  }
  // A leg is shown of one that is not among them, or of all who have one, and there is another.
  assert.equal(made({ shown: [0], participants: [0, 2], answers: [] }), "form");
  assert.equal(made({ shown: [0, 1, 2, 3], participants: [0, 1, 2, 3] }), "form");
  // Each has a leg: one of those that are hidden, where none of its legs is shown.
  assert.equal(made({ participants: [0, 1, 2, 3, 4], answers: [] }), "form");
  assert.equal(made({ shown: [0], participants: [0, 1, 2, 3, 4], answers: [] }), "form");
  assert.equal(made({ shown: [1, 2], participants: [0, 1, 2, 3], answers: [] }), "form");
  // An account order has no legs, and is of one.
  const { transaction } = proof();
  const order = { ...transaction, kind: 4, legs: [], participants: [1, 2] };
  assert.equal(
    fault(() => contentsId(order)),
    "form",
  );
  assert.equal(contentsId({ ...order, participants: [1] }).length, 32);
  for (const participants of [
    [0, 1],
    [0, 1, 2, 3],
    [0, 1, 65535],
    [1, 2],
  ]) {
    assert.equal(made({ participants, answers: [] }), "id", String(participants));
  }
  for (const participants of [[0, 1, 65536], [65536]]) {
    assert.equal(made({ participants, answers: [] }), "form", String(participants));
  }
});

test("the id of the contents is a hash under the key of the network", () => {
  // By its definition, without what the client has to compute it.
  const { transaction: contents } = proof();
  const [network, expiry] = [Buffer.from(contents.network, "hex"), Buffer.alloc(8)];
  expiry.writeBigUInt64LE(contents.expiry);
  const identity = (kind: number, participants: readonly number[], legs: readonly Buffer[]) => {
    const list = Buffer.concat([Buffer.from(Uint16Array.from(participants).buffer), Buffer.alloc(64, 0xff)]);
    const isShort = participants.length < 3;
    const body = Buffer.concat([
      Buffer.of(kind, legs.length, participants.length, 0),
      isShort ? list.subarray(0, 4) : Buffer.alloc(4),
      expiry,
      Buffer.from(contents.uetr.replaceAll("-", ""), "hex"),
      Buffer.from(contents.details, "hex"),
      isShort ? Buffer.of() : list.subarray(0, 64),
      ...legs,
      Buffer.alloc(32 * (legs.length % 2)),
    ]);
    const key = blake3(network, { context: Buffer.from("tallystick settlement v2 transaction") });
    return toHex(blake3(body, { key }));
  };
  const many = Array.from({ length: 30 }, (_, at) => at);
  for (const kind of [1, 2, 4]) {
    for (const participants of [[7], [0, 65535], [1, 2, 3], [1, 258, 65534, 65535], many]) {
      for (const count of [0, 1, 2, 5, 30]) {
        if (participants.length > Math.max(count, 1)) continue;
        const legs = Array.from({ length: count }, (_, at) => Buffer.alloc(32, at));
        const hidden = legs.map((leg) => ({ hidden: toHex(leg) }));
        const id = toHex(contentsId({ ...contents, kind, participants, legs: hidden }));
        assert.equal(id, identity(kind, participants, legs), `${kind} ${String(participants)} ${count}`);
      }
    }
  }
});

test("the same signatures prove nothing in another network", () => {
  const network = "00".repeat(32);
  const other = new Keys(network, keys.operator, keys.institutions);
  const { transaction, receipt, ...rest } = proof();
  const contents = { ...transaction, network };
  const id = toHex(contentsId(contents));
  assert.equal(
    fault(() => verifyProof({ ...rest, transaction: contents, receipt: { ...receipt, id } }, other)),
    "receipt",
  );
  assert.equal(verifyReceipt(receipt, keys).size, 50n);
  assert.equal(
    fault(() => verifyReceipt(receipt, other)),
    "head",
  );
  const [answer] = proof().approvals;
  assert.ok(answer);
  const { scheduler, batch } = receipt;
  const about = { network: keys.network, id: fromHex(receipt.id), scheduler, batch };
  const key = keys.institution(answer.participant)?.key ?? new Uint8Array();
  verifyApproval(answer, about, key);
  for (const change of [{ network }, { id: fromHex(network) }, { batch: 1n }, { scheduler: 9n }]) {
    assert.equal(
      fault(() => {
        verifyApproval(answer, { ...about, ...change }, key);
      }),
      "approval",
      Object.keys(change).join(),
    );
  }
});

test("another version is said to be one", () => {
  for (const version of [0n, 1n, 3n]) {
    const value = changed(document, ["version"], () => version);
    assert.equal(
      fault(() => parseProof(formatJson(value))),
      "version",
    );
  }
  // Version 1 has a count in place of the list of participants.
  const old = changed(
    changed(document, ["version"], () => 1n),
    ["transaction"],
    (value) => ({ ...(value as object), participants: 3n, network: "7a110001" }),
  );
  assert.equal(
    fault(() => parseProof(formatJson(old))),
    "version",
  );
  assert.equal(
    fault(() => verifyProof({ ...proof(), version: 1 }, keys)),
    "version",
  );
});

test("a refusal is proven without everybody's answer", () => {
  const verified = verifyProof(madeProof({ verdict: 24, answers: [[1, 24]] }), madeKeys);
  assert.equal(verified.refusal?.code, "AM04");
  assert.deepEqual(
    verified.answers.map(({ bic, refusal }) => [bic, refusal?.code]),
    [["BANKDEFF", "AM04"]],
  );
  assert.equal(
    made({
      answers: [
        [0, 0],
        [1, 24],
        [2, 0],
      ],
    }),
    "refused",
  );
  assert.equal(made({ verdict: 999, answers: [] }), "receipt");
  assert.equal(made({ verdict: 24, answers: [[1, 999]] }), "approval");
});

test("a head of before the decision is refused", () => {
  assert.equal(made({ headMs: 1_750_000_000_019n }), "receipt");
});

test("a transaction of nobody is not approved by nobody", () => {
  assert.equal(made({ participants: [], answers: [] }), "form");
  assert.equal(made({ participants: [0, 1], shown: [0, 1, 2, 3], answers: [] }), "form");
});

test("an answer that is outside its batch is none", () => {
  assert.equal(made({ index: 1 }), "approval");
});

test("other keys prove nothing", () => {
  const other = keys.institution(3)?.key ?? new Uint8Array();
  assert.equal(
    fault(() => verifyProof(proof(), new Keys(keys.network, other, keys.institutions))),
    "receipt",
  );
  for (const network of ["00".repeat(32), keys.network.slice(0, 62) + "00"]) {
    assert.equal(
      fault(() => verifyProof(proof(), new Keys(network, keys.operator, keys.institutions))),
      "network",
    );
  }
  const renamed = keys.institutions.map((each) => (each.participant === 2 ? { ...each, key: other } : each));
  assert.equal(
    fault(() => verifyProof(proof(), new Keys(keys.network, keys.operator, renamed))),
    "approval",
  );
});

test("a number that the signed form cannot hold is a proof error", () => {
  const wide = proof();
  wide.transaction.participants = [0, 1, 65536];
  assert.equal(
    fault(() => verifyProof(wide, keys)),
    "form",
  );
});

test("keys are read as TOML and as JSON, and nothing else", () => {
  const institutions = keys.institutions.map(
    ({ participant, bic, key }) =>
      `[[institutions]]\nparticipant = ${participant}\nbic = "${bic}"\nkey = "${Buffer.from(key).toString("hex")}"\n`,
  );
  const operator = Buffer.from(keys.operator).toString("hex");
  const toml = `network = "${keys.network}"\noperator = "${operator}"\n\n${institutions.join("\n")}`;
  assert.deepEqual(Keys.parse(toml), keys);
  for (const bad of [
    "",
    "{}",
    "network = 1",
    `${toml}\nmore = 1`,
    goldenKeys.replace(keys.network, keys.network.toUpperCase()),
    goldenKeys.replace(keys.network, keys.network.slice(0, 8)),
    goldenKeys.replace(keys.network, `${keys.network}00`),
    goldenKeys.replace('"BANKDEFF"', "1"),
  ]) {
    assert.throws(() => Keys.parse(bad), TallystickError, bad);
  }
});
