import assert from "node:assert/strict";
import test from "node:test";
import {
  fromHex,
  formatProof,
  type Institution,
  Keys,
  parseJson,
  parseProof,
  type Schemas,
  SigningKey,
  TallystickError,
  toHex,
  TooFewWitnessesError,
  verifyConsistencyProof,
  verifyCosignatures,
  verifyProof,
  verifyReceipt,
  verifySignature,
  type WitnessOptions,
} from "../src/index.js";
import type { Json } from "../src/json.js";
import { cosignedBytes } from "../src/proof/witness.js";
import { conform } from "../src/schema.js";
import { fault } from "./fault.js";
import {
  cosignedConsistency,
  cosignedKeys,
  cosignedProof,
  goldenForms,
  goldenKeys,
  goldenProof,
} from "./golden.js";

type HeadCosignature = Schemas["HeadCosignature"];

const none = Keys.parse(goldenKeys);
const two = Keys.parse(cosignedKeys);
const proof = () => parseProof(cosignedProof);
const consistency = () => conform("Consistency", parseJson(cosignedConsistency), { strict: true });
const key = (participant: number) => SigningKey.fromSeed(new Uint8Array(32).fill(participant + 1));

const { head: signed } = proof().receipt.head;
const HEAD = { size: signed.size, root: fromHex(signed.root), timestampMs: signed.timestamp_ms };
const TIME_S = 1_750_000_060n;
const MAX_TIME_S = 2n ** 63n - 1n;

/** The witness's cosignature on the golden head, or on another one, another time or for another network. */
function cosignature(
  participant: number,
  { timeS = TIME_S, head = HEAD, network = two.network } = {},
): HeadCosignature {
  const signature = toHex(key(participant).sign(cosignedBytes(head, network, timeS)));
  return { participant, time_s: timeS, signature };
}

function cosigned(...cosignatures: HeadCosignature[]) {
  const { receipt, ...rest } = proof();
  return { ...rest, receipt: { ...receipt, cosignatures } };
}

const asking = (witnesses: number, institutions: readonly Institution[] = two.institutions) =>
  new Keys(two.network, two.operator, institutions, witnesses);

/** Of how many records the head is, how many witnesses are wanted and how many there are. */
function tooFew(run: () => unknown): [bigint, number, number] {
  try {
    run();
  } catch (error) {
    assert.ok(error instanceof TooFewWitnessesError, String(error));
    assert.equal(error.fault, "too-few-witnesses");
    assert.match(error.message, new RegExp(`^${error.got} of the ${error.wanted} institutions`));
    return [error.size, error.wanted, error.got];
  }
  return assert.fail("there were enough");
}

const bics = (witnesses: readonly { readonly bic: string }[]) => witnesses.map(({ bic }) => bic);

test("the golden proof says who cosigned it", () => {
  assert.deepEqual([two.witnesses, none.witnesses], [2, 0]);
  const expected = ["BANKDEFF", "BANKFRPP", "BANKESMM"].map((bic, at) => {
    return { participant: at + 1, bic, timeS: TIME_S + BigInt(at + 1) };
  });
  for (const keys of [two, none]) {
    assert.deepEqual(verifyProof(proof(), keys).witnesses, expected);
    assert.equal(verifyReceipt(proof().receipt, keys).size, 50n);
    const { cosignatures = [] } = proof().receipt;
    // In whatever order they stand.
    assert.deepEqual(verifyCosignatures(HEAD, [...cosignatures].reverse(), keys), expected);
  }
  assert.deepEqual(verifyProof(parseProof(goldenProof), none).witnesses, []);
  assert.equal(formatProof(proof()), cosignedProof);
});

test("the golden consistency proof says who cosigned both heads", () => {
  const { first, second } = consistency();
  const witnessed = verifyConsistencyProof(consistency(), two, [first, second]);
  assert.deepEqual(bics(witnessed.first), ["BANKDEFF", "BANKESMM"]);
  assert.deepEqual(bics(witnessed.second), ["BANKDEFF", "BANKFRPP", "BANKESMM"]);
  const of = (change: Partial<Schemas["Consistency"]>, keys = two, options: WitnessOptions = {}) =>
    verifyConsistencyProof({ ...consistency(), ...change }, keys, [], options);
  assert.deepEqual(
    tooFew(() => of({}, asking(3))),
    [21n, 3, 2],
  );
  assert.deepEqual(
    tooFew(() => of({}, none, { witnesses: 3 })),
    [21n, 3, 2],
  );
  assert.deepEqual(
    tooFew(() => of({ first_cosignatures: [] })),
    [21n, 2, 0],
  );
  assert.deepEqual(
    tooFew(() => of({ second_cosignatures: [] })),
    [50n, 2, 0],
  );
  assert.deepEqual(
    tooFew(() => of({ second_cosignatures: [] }, none, { witnesses: 1 })),
    [50n, 1, 0],
  );
  const { first_cosignatures: early = [], second_cosignatures: late = [] } = consistency();
  // Those of one head are of no other.
  assert.equal(
    fault(() => of({ first_cosignatures: late, second_cosignatures: early }, none)),
    "cosignature",
  );
  const { path } = consistency();
  assert.deepEqual(verifyConsistencyProof({ first, second, path }, none), { first: [], second: [] });
});

test("the signed bytes are the published ones", () => {
  const { network, namesake, owner, cosignature: form } = goldenForms;
  const head = { size: BigInt(form.size), root: fromHex(form.root), timestampMs: 0n };
  const message = (network: string) => cosignedBytes(head, network, BigInt(form.time_s));
  assert.equal(Buffer.from(message(network)).toString(), form.message);
  const verifies = (network: string, signature: string) =>
    verifySignature(fromHex(owner), message(network), fromHex(signature));
  assert.ok(verifies(network, form.signature) && verifies(namesake, form.signature_on_namesake));
  assert.ok(!verifies(network, form.signature_on_namesake) && !verifies(namesake, form.signature));
});

test("fewer than the keys or the caller ask for are refused", () => {
  for (const witnesses of [0, 1, 2, 3]) {
    assert.equal(verifyProof(proof(), asking(witnesses)).witnesses.length, 3);
    assert.equal(verifyProof(proof(), none, { witnesses }).witnesses.length, 3);
  }
  const few = [
    () => verifyProof(proof(), asking(4)),
    () => verifyProof(proof(), two, { witnesses: 4 }),
    () => verifyProof(proof(), two, { witnesses: 4, finality: true }),
    () => verifyReceipt(proof().receipt, two, { witnesses: 4 }),
  ];
  for (const run of few) assert.deepEqual(tooFew(run), [50n, 4, 3]);
  const one = cosigned(cosignature(2));
  assert.deepEqual(
    tooFew(() => verifyProof(one, two)),
    [50n, 2, 1],
  );
  assert.deepEqual(
    tooFew(() => verifyReceipt(one.receipt, two)),
    [50n, 2, 1],
  );
  // The caller cannot ask for fewer than the keys.
  assert.deepEqual(
    tooFew(() => verifyProof(one, two, { witnesses: 1 })),
    [50n, 2, 1],
  );
  assert.deepEqual(bics(verifyProof(one, none, { witnesses: 1 }).witnesses), ["BANKFRPP"]);
  assert.deepEqual(
    tooFew(() => verifyProof(parseProof(goldenProof), two)),
    [50n, 2, 0],
  );
  assert.equal(
    fault(() => verifyProof(proof(), two, { witnesses: Number.NaN })),
    "too-few-witnesses",
  );
});

test("neither the operator nor one key twice is another witness", () => {
  const withOperator = cosigned(cosignature(0), cosignature(1));
  assert.deepEqual(bics(verifyProof(withOperator, none).witnesses), ["BANKDEFF"]);
  assert.deepEqual(
    tooFew(() => verifyProof(withOperator, two)),
    [50n, 2, 1],
  );
  assert.equal(
    verifyProof(cosigned(cosignature(0), cosignature(1), cosignature(2)), two).witnesses.length,
    2,
  );
  const fourth = (key: Uint8Array) =>
    asking(
      2,
      two.institutions.map((each) => (each.participant === 3 ? { ...each, key } : each)),
    );
  // An institution with the operator's key is the operator.
  const alias = cosigned({ ...cosignature(0), participant: 3 }, cosignature(1));
  assert.deepEqual(
    tooFew(() => verifyProof(alias, fourth(two.operator))),
    [50n, 2, 1],
  );
  // Two institutions with one key are one witness.
  const both = cosigned(cosignature(2), { ...cosignature(2), participant: 3 });
  assert.deepEqual(
    tooFew(() => verifyProof(both, fourth(key(2).publicKey))),
    [50n, 2, 1],
  );
});

test("false cosignatures are refused, whether or not any are asked for", () => {
  const [one, other] = [cosignature(1), cosignature(2)];
  const namesake = two.network.slice(0, 8) + (two.network[8] === "0" ? "1" : "0") + two.network.slice(9);
  for (const keys of [none, two]) {
    const of = (...cosignatures: HeadCosignature[]) =>
      fault(() => verifyProof(cosigned(...cosignatures), keys));
    assert.equal(of(one, other, one), "twice");
    assert.equal(of(one, { ...other, participant: 3 }), "cosignature");
    assert.equal(of(one, { ...other, participant: 9 }), "unknown-institution");
    assert.equal(of(one, other, cosignature(3), cosignature(0), one), "form");
    // Another network, whose id begins alike; another time, size or root; a stranger; another institution.
    assert.equal(of(one, cosignature(2, { network: namesake })), "cosignature");
    assert.equal(of(one, { ...other, time_s: TIME_S + 1n }), "cosignature");
    assert.equal(of(one, cosignature(2, { head: { ...HEAD, size: 49n } })), "cosignature");
    assert.equal(of(one, cosignature(2, { head: { ...HEAD, root: new Uint8Array(32) } })), "cosignature");
    assert.equal(of(one, { ...cosignature(9), participant: 2 }), "cosignature");
    assert.equal(of(one, { ...one, participant: 2 }), "cosignature");
    // The time of the head is not the witness's to say.
    assert.equal(of(one, cosignature(2, { head: { ...HEAD, timestampMs: 1n } })), "none");
    // No time is beyond the form, also where somebody signed it.
    assert.equal(of(one, cosignature(2, { timeS: MAX_TIME_S })), "none");
    assert.equal(of(one, cosignature(2, { timeS: MAX_TIME_S + 1n })), "cosignature");
    // What cannot be a signature.
    assert.equal(of(one, { ...other, signature: "00" }), "form");
  }
});

test("no more are looked at than can be asked for", () => {
  const many = Array.from({ length: 300 }, (_, participant) => {
    return { participant, bic: `BANK${participant}`, key: key(participant % 4).publicKey };
  });
  const of = (count: number) =>
    fault(() =>
      verifyProof(cosigned(...Array<HeadCosignature>(count).fill(cosignature(1))), asking(0, many)),
    );
  assert.equal(of(256), "form");
  assert.equal(of(255), "twice");
});

type Path = (string | number)[];

/** Paths to every value in a list of cosignatures. */
function leaves(value: Json, at: Path = []): Path[] {
  if (typeof value === "object" && value !== null) {
    return Object.entries(value).flatMap(([name, item]) => leaves(item, [...at, name]));
  }
  return at.some((name) => String(name).includes("cosignatures")) ? [at] : [];
}

function flipped(document: string, path: Path, bit: number): Json {
  const value = parseJson(document);
  const last = path.at(-1) ?? "";
  let parent = value as { [name: string]: Json };
  for (const name of path.slice(0, -1)) parent = parent[name] as { [name: string]: Json };
  const old = parent[last];
  if (typeof old === "bigint") {
    parent[last] = old ^ (1n << BigInt(bit % (last === "participant" ? 16 : 64)));
  } else {
    assert.ok(typeof old === "string");
    const at = Math.floor(bit / 4) % old.length;
    const digit = (Number.parseInt(old[at] ?? "", 16) ^ (1 << (bit % 4))).toString(16);
    parent[last] = old.slice(0, at) + digit + old.slice(at + 1);
  }
  return value;
}

test("every field of a cosignature is proven", () => {
  const bits = [0, 1, 2, 9, 15, 62, 63, 255, 511];
  for (const keys of [none, two]) {
    const cases = [
      [
        cosignedProof,
        9,
        (value: Json) => verifyProof(conform("Proof", value, { strict: true }), keys, { finality: true }),
      ],
      [
        cosignedConsistency,
        15,
        (value: Json) => verifyConsistencyProof(conform("Consistency", value, { strict: true }), keys),
      ],
    ] as const;
    for (const [document, count, verify] of cases) {
      verify(parseJson(document));
      const paths = leaves(parseJson(document));
      assert.equal(paths.length, count);
      for (const path of paths) {
        for (const bit of bits) {
          const what = `bit ${bit} of ${path.join(".")}`;
          assert.throws(() => verify(flipped(document, path, bit)), TallystickError, what);
        }
      }
    }
  }
});

test("other values are no cosignatures", () => {
  const one = { participant: 1n, time_s: 1n, signature: "00".repeat(64) };
  const wrongs: Json[] = [
    null,
    {},
    [[]],
    ["00"],
    [{ ...one, more: 1n }],
    [{ participant: 1n, time_s: 1n }],
    [{ ...one, participant: true }],
    [{ ...one, time_s: -1n }],
    [{ ...one, time_s: 2n ** 64n }],
    [{ ...one, time_s: 1.5 }],
    [{ ...one, signature: null }],
  ];
  for (const wrong of wrongs) {
    const document = parseJson(cosignedProof) as { receipt: { [name: string]: Json } } & {
      [name: string]: Json;
    };
    document.receipt["cosignatures"] = wrong;
    assert.throws(() => conform("Proof", document, { strict: true }), TallystickError);
    assert.throws(() => conform("Receipt", document.receipt, { strict: true }), TallystickError);
    for (const name of ["first_cosignatures", "second_cosignatures"]) {
      const between = { ...(parseJson(cosignedConsistency) as object), [name]: wrong };
      assert.throws(() => conform("Consistency", between, { strict: true }), TallystickError);
    }
  }
});

test("keys say how many witnesses are asked for", () => {
  const asked = (text: string) => cosignedKeys.replace('"witnesses": 2', `"witnesses": ${text}`);
  for (const witnesses of [0, 1, 255]) {
    assert.equal(Keys.parse(asked(String(witnesses))).witnesses, witnesses);
  }
  assert.deepEqual(Keys.parse(cosignedKeys.replace('  "witnesses": 2,\n', "")), none);
  for (const wrong of ["-1", "256", '"2"', "true", "null", "2.0", "[2]", "99999999999999999999"]) {
    assert.throws(() => Keys.parse(asked(wrong)), TallystickError, wrong);
  }
  for (const wrong of [-1, 256, 1.5, Number.NaN]) assert.throws(() => asking(wrong), TallystickError);
  const institutions = two.institutions.map(
    ({ participant, bic, key }) =>
      `[[institutions]]\nparticipant = ${participant}\nbic = "${bic}"\nkey = "${toHex(key)}"\n`,
  );
  const head = `network = "${two.network}"\noperator = "${toHex(two.operator)}"\nwitnesses = 2\n`;
  assert.deepEqual(Keys.parse(`${head}\n${institutions.join("\n")}`), two);
});
