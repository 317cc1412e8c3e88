import assert from "node:assert/strict";
import test from "node:test";
import fc from "fast-check";
import {
  formatProof,
  Keys,
  ProofError,
  parseJson,
  parseProof,
  TallystickError,
  verifyProof,
} from "../src/index.js";
import { conform } from "../src/schema.js";
import type { Json } from "../src/json.js";
import { goldenKeys, goldenProof } from "./golden.js";
import { type Made, madeKeys, madeProof } from "./made_proof.js";

const keys = Keys.parse(goldenKeys);
const proof = () => parseProof(goldenProof);

function fault(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    assert.ok(error instanceof ProofError, String(error));
    return error.fault;
  }
  return "none";
}

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
  assert.equal(verified.notShown, 0);
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
  assert.equal(of({ ...second, participant: 9 }), "unknown-institution");
  assert.equal(of({ ...second, index: second.batch_len }), "approval");
});

const made = (change: Made) => fault(() => verifyProof(madeProof(change), madeKeys, { finality: true }));

test("who has no part in a payment cannot stand in for one who has", () => {
  assert.equal(made({}), "none");
  assert.equal(made({ showLegs: true }), "none");
  // It cannot be told while legs are hidden, and is told where they are not.
  const answers = [
    [0, 0],
    [1, 0],
    [3, 0],
  ] as const;
  assert.equal(made({ answers }), "none");
  assert.equal(made({ answers, showLegs: true }), "not-concerned");
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
  assert.equal(made({ participants: 0, answers: [] }), "form");
  assert.equal(made({ participants: 2, showLegs: true, answers: [] }), "form");
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
  assert.equal(
    fault(() => verifyProof(proof(), new Keys(1, keys.operator, keys.institutions))),
    "network",
  );
  const renamed = keys.institutions.map((each) => (each.participant === 2 ? { ...each, key: other } : each));
  assert.equal(
    fault(() => verifyProof(proof(), new Keys(keys.network, keys.operator, renamed))),
    "approval",
  );
});

test("a number that the signed form cannot hold is a proof error", () => {
  const wide = proof();
  wide.transaction.participants = 256;
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
  const toml = `network = "7a110001"\noperator = "${operator}"\n\n${institutions.join("\n")}`;
  assert.deepEqual(Keys.parse(toml), keys);
  for (const bad of [
    "",
    "{}",
    "network = 1",
    `${toml}\nmore = 1`,
    goldenKeys.replace("7a11", "7A11"),
    goldenKeys.replace('"BANKDEFF"', "1"),
  ]) {
    assert.throws(() => Keys.parse(bad), TallystickError, bad);
  }
});
