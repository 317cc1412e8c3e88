/** Against a running network; skipped where TALLY_URL does not name one. See scripts/check-client-typescript. */

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { after, test as base } from "node:test";
import { promisify } from "node:util";
import {
  AccessError,
  ArgumentError,
  BusyError,
  KIND,
  KeyError,
  Keys,
  Network,
  NetworkMismatchError,
  NotFoundError,
  newTransaction,
  newUetr,
  ProblemError,
  RefusedError,
  SigningKey,
  sign,
  Tallystick,
  type TallystickOptions,
  TooFewWitnessesError,
  TransportError,
  toHex,
  transactionId,
  verifyConsistencyProof,
  verifyProof,
  verifyReceipt,
  verifyTreeHead,
} from "../src/index.js";

const {
  TALLY_URL: url = "",
  TALLY_DIRECTORY: directory = "",
  TALLY_KEYS: keyFile = "",
  TALLY: tally = "",
} = process.env;
const skip = url === "";
const test = (name: string, run: () => Promise<void>) => base(name, { skip }, run);

const file = async (name: string) => (skip ? "" : readFile(`${directory}/${name}`, "utf8"));
const [token, ca, passphrase] = [
  await file("token"),
  await file("tls/ca.pem"),
  (await file("passphrase")).trim(),
];
const connect = (options: TallystickOptions = {}) =>
  new Tallystick(skip ? "http://127.0.0.1:1" : url, { token, ca, ...options });
const client = connect();
after(() => {
  client.close();
});

const ALICE = "DE20999000010000000001";
const BOB = "FR7699999000010000000000115";
const institution = (bic: string) =>
  SigningKey.fromFile(`${directory}/keys/institutions/${bic}.pem`, passphrase);
const customer = (name: string) => SigningKey.fromFile(`${directory}/keys/customers/${name}.pem`, passphrase);
const keys = () => Keys.fromFile(keyFile);

/** Moves an amount by a transaction that is built here. */
async function move(amount: bigint, uetr = newUetr()) {
  const network = await client.configuration();
  const alice = await customer(ALICE);
  const accountOf = async (bic: string, alias: string) => {
    const { number } = await client.account(bic, alias);
    return { participant: network.participant(bic), number };
  };
  const [from, to] = [await accountOf("ALPHDEFF", ALICE), await accountOf("BETAFRPP", BOB)];
  const legs = network.paymentLegs(from, to, "EUR", amount);
  const transaction = sign(newTransaction(KIND.transfer, await client.terms(uetr), legs), alice);
  const [outcome] = await client.submit([transaction]);
  assert.ok(outcome);
  assert.equal(outcome.id, toHex(transactionId(transaction)));
  return outcome;
}

test("the network, its books and its health", async () => {
  const view = await client.network();
  assert.equal(view.network.participants[1]?.bic, "ALPHDEFF");
  assert.ok(view.totals.some(({ issued }) => typeof issued === "bigint"));
  assert.ok((await client.health()).healthy);
  assert.ok((await client.ready()).healthy);
  assert.match(await client.metrics(), /^# HELP /m);
  assert.ok((await client.books("ALPHDEFF")).next_account > 0);
});

test("a network is what it was, or another", async () => {
  const known = await client.configuration();
  const pinned = Network.fromJson(known.toJson());
  const other = connect({ network: new Network({ ...pinned.configuration, id: "00".repeat(32) }) });
  await assert.rejects(other.network(), NetworkMismatchError);
  other.close();
  const good = connect({ network: pinned, keys: await keys() });
  assert.equal((await good.network()).network.id, known.id);
  good.close();
  const { network, operator, institutions } = await keys();
  const forged = institutions.map((each) => (each.bic === "ALPHDEFF" ? { ...each, key: operator } : each));
  const doubting = connect({ keys: new Keys(network, operator, forged) });
  await assert.rejects(doubting.configuration(), NetworkMismatchError);
  doubting.close();
});

test("accounts are opened, frozen, released, limited and closed", async () => {
  const bank = await institution("ALPHDEFF");
  const alias = `anna-${newUetr()}`;
  const owner = SigningKey.generate();
  const opened = await client.openAccount(
    { institution: "ALPHDEFF", alias, asset: "EUR", owner, floor: "-5.00" },
    bank,
  );
  assert.deepEqual([opened.floor, opened.minor_units, opened.owner], ["-5.00", 0n, owner.publicHex]);
  const account = { institution: "ALPHDEFF", account: alias };
  assert.equal((await client.freezeAccount(account, bank)).status, "frozen");
  assert.equal((await client.releaseAccount(account, bank)).status, "open");
  assert.equal((await client.setFloor(account, "0", bank)).floor, "0.00");
  assert.equal((await client.closeAccount(account, bank)).status, "closed");
  await assert.rejects(client.freezeAccount(account, bank), RefusedError);
  const others = client.openAccount(
    { institution: "ALPHDEFF", alias: `${alias}-2`, asset: "EUR", owner },
    owner,
  );
  await assert.rejects(others, (error: RefusedError) => error.code.startsWith("DS0"));
});

test("accounts that are opened at the same time all are", async () => {
  const bank = await institution("GAMMITMM");
  const owner = SigningKey.generate();
  const aliases = Array.from({ length: 5 }, () => `at-once-${newUetr()}`);
  const open = (alias: string) =>
    client.openAccount({ institution: "GAMMITMM", alias, asset: "EUR", owner }, bank);
  const opened = await Promise.all(aliases.map(open));
  assert.equal(new Set(opened.map(({ number }) => number)).size, aliases.length);
});

test("a transaction that is built here settles, and is proven offline", async () => {
  const outcome = await move(250n);
  assert.equal(outcome.status, "ACSC");
  assert.equal((await client.status(outcome.uetr)).sequence, outcome.sequence);
  assert.equal((await client.status(outcome.id)).uetr, outcome.uetr);
  const trusted = await keys();
  const receipt = await client.receipt(outcome.uetr);
  assert.ok(verifyReceipt(receipt, trusted).size > 0n);
  const verified = verifyProof(await client.proof(outcome.uetr, { legs: ["ALPHDEFF"] }), trusted);
  assert.deepEqual([verified.id, verified.refusal, verified.sequence], [outcome.id, null, outcome.sequence]);
  assert.deepEqual(
    verified.answers.map(({ bic }) => bic),
    ["TSCBDEFF", "ALPHDEFF", "BETAFRPP"],
  );
  assert.deepEqual(
    verified.legs.map(({ leg }) => leg.amount),
    [-250n],
  );
  // In one process nobody but the operator follows the log: its keys ask for no witnesses, and its proofs have none.
  assert.deepEqual([trusted.witnesses, verified.witnesses], [0, []]);
  assert.throws(() => verifyReceipt(receipt, trusted, { witnesses: 1 }), TooFewWitnessesError);
});

test("a refusal is an outcome, and is proven", async () => {
  const outcome = await move(99_999_999n);
  assert.deepEqual([outcome.status, outcome.reason?.code], ["RJCT", "AM04"]);
  const verified = verifyProof(await client.proof(outcome.id), await keys());
  assert.equal(verified.refusal?.code, "AM04");
});

test("a reference is used once", async () => {
  const first = await move(1n);
  const second = await move(1n, first.uetr);
  assert.deepEqual([second.reason?.code, second.first?.id], ["AM05", first.id]);
});

test("the log was only appended to", async () => {
  const trusted = await keys();
  await move(2n);
  const early = await client.treeHead();
  await move(3n);
  const late = await client.treeHead();
  const [first, second] = [early, late].map((head) => verifyTreeHead(head, trusted).size);
  assert.ok(first !== undefined && second !== undefined && first < second);
  const shown = await client.consistency(first, second);
  assert.deepEqual(verifyConsistencyProof(shown, trusted, [early, late]), { first: [], second: [] });
});

test("a statement is read page by page", async () => {
  await move(4n);
  await move(5n);
  const all = [];
  for await (const entry of client.statement("ALPHDEFF", ALICE, { pageSize: 1 })) all.push(entry);
  assert.ok(all.length >= 3);
  assert.deepEqual(
    all.slice(0, 2).map(({ amount }) => amount),
    ["-0.05", "-0.04"],
  );
  const [, second] = all;
  const rest = [];
  for await (const entry of client.statement("ALPHDEFF", ALICE, { before: second?.sequence ?? 0n }))
    rest.push(entry);
  assert.deepEqual(rest, all.slice(2));
});

test("problems are errors of their kind", async () => {
  await assert.rejects(client.account("ALPHDEFF", "nobody"), NotFoundError);
  await assert.rejects(client.status(newUetr()), NotFoundError);
  await assert.rejects(
    client.status("x"),
    (error: ProblemError) => error.status === 400 && error.code === "FF01",
  );
  await assert.rejects(connect({ token: "wrong" }).network(), AccessError);
  await assert.rejects(new Tallystick(url, { token }).network(), TransportError);
  assert.throws(() => new Tallystick("http://example.org", { token }), ArgumentError);
});

test("a user's role, institution and quota bind", async () => {
  const name = `clerk-${newUetr().slice(0, 8)}`;
  const grant = [
    "access",
    "grant",
    name,
    "--institution",
    "ALPHDEFF",
    "--roles",
    "read",
    "--per-second",
    "1",
    "--burst",
    "3",
  ];
  const { stdout } = await promisify(execFile)(tally, ["--network", directory, ...grant]);
  const clerk = connect({ token: stdout.trim(), retries: 40 });
  const recognised = async (): Promise<void> => {
    // The gateway looks at its users now and then.
    try {
      await clerk.books("ALPHDEFF");
    } catch (error) {
      if (!(error instanceof AccessError)) throw error;
      await recognised();
    }
  };
  await recognised();
  await assert.rejects(clerk.books("BETAFRPP"), AccessError);
  await assert.rejects(clerk.metrics(), AccessError);
  const hasty = connect({ token: stdout.trim(), retries: 0 });
  await assert.rejects(
    Promise.all(Array.from({ length: 10 }, () => hasty.books("ALPHDEFF"))),
    (error: unknown) => error instanceof BusyError && (error.retryAfterSeconds ?? 0) >= 1,
  );
  clerk.close();
  hasty.close();
});

test("a payment message is prepared, checked, signed and reported on", async () => {
  const xml = await readFile(resolve("../../examples/01-inside-a-bank.pain.001.xml"));
  const payment = {
    from: { institution: "ALPHDEFF", account: ALICE },
    to: { institution: "ALPHDEFF", account: "DE90999000010000000002" },
    amount: "120.50",
    asset: "EUR",
    key: await customer(ALICE),
  };
  for (const wrong of [
    { ...payment, amount: "120.51" },
    { ...payment, asset: "USD" },
    { ...payment, key: SigningKey.generate() },
  ]) {
    await assert.rejects(client.submitMessage(xml, [wrong]), /is not signed/);
  }
  const report = await client.submitMessage(xml, [payment]);
  assert.match(report, /<TxSts>ACSC<\/TxSts>/);
  const broken = await client.submitMessage("<Document/>", []);
  assert.match(broken, /RJCT/);
});

test("a payment is prepared by the gateway, checked, signed, and repeated", async () => {
  const payment = {
    from: { institution: "ALPHDEFF", account: ALICE },
    to: { institution: "BETAFRPP", account: BOB },
    amount: "1.23",
    asset: "EUR",
    key: await customer(ALICE),
    details: "ab".repeat(32),
  };
  const paid = await client.pay(payment);
  assert.equal(paid.status, "ACSC");
  const { transaction } = await client.proof(paid.uetr);
  assert.equal(transaction.details, payment.details);
  verifyProof(await client.proof(paid.uetr), await keys());
  const idempotencyKey = newUetr();
  const first = await client.pay(payment, { idempotencyKey });
  const again = await client.pay(payment, { idempotencyKey });
  assert.deepEqual([again.id, again.sequence, again.status], [first.id, first.sequence, "ACSC"]);
  await assert.rejects(
    client.pay({ ...payment, amount: "1.24" }, { idempotencyKey }),
    (error: unknown) => error instanceof ProblemError && error.status === 422,
  );
  await assert.rejects(
    client.pay({ ...payment, amount: "999999.99" }),
    (error: unknown) => error instanceof RefusedError && error.code === "AM04",
  );
  await assert.rejects(
    client.pay({ ...payment, to: { ...payment.to, account: "nobody" } }),
    (error: unknown) => error instanceof RefusedError && error.code === "AC03",
  );
  const several = await client.payAll([payment, { ...payment, amount: "0.01" }]);
  assert.deepEqual(
    several.map((each) => (each instanceof RefusedError ? each.code : each.status)),
    ["ACSC", "ACSC"],
  );
});

test("outcomes come as they become final, and none is missed", async () => {
  const { sequence } = await client.network();
  const events = client.events({ after: sequence - 1n });
  const outcome = await move(7n);
  const first = await events.next();
  assert.deepEqual(first.value, { sequence: outcome.sequence, outcome });
  await events.return();
  // Moved while nobody listened.
  const missed = [await move(8n), await move(99_999_999n), await move(9n)];
  const told = [];
  for await (const event of client.events({ after: outcome.sequence ?? 0n })) {
    told.push(event.outcome);
    if (told.length === missed.length) break;
  }
  assert.deepEqual(told, missed);
  const stop = new AbortController();
  const waiting = client.events({ signal: stop.signal }).next();
  setTimeout(() => stop.abort(), 100);
  await assert.rejects(waiting, { name: "AbortError" });
  await assert.rejects(connect({ token: "wrong" }).events({ after: 0n }).next(), AccessError);
});

test("institutions and assets are those of the configuration", async () => {
  const { configuration } = await client.configuration();
  const institutions = await client.institutions();
  assert.deepEqual(
    institutions.map(({ bic, key }) => [bic, key]),
    configuration.participants.map(({ bic, key }) => [bic, key]),
  );
  assert.equal((await client.institution("ALPHDEFF")).participant, 1);
  const assets = await client.assets();
  assert.deepEqual(
    assets.map(({ code, exponent }) => [code, exponent]),
    configuration.assets.map(({ code, exponent }) => [code, exponent]),
  );
  assert.equal((await client.asset("EUR")).settled_at, "TSCBDEFF");
  await assert.rejects(client.asset("GBP"), NotFoundError);
});

test("statements and notifications are messages too", async () => {
  await move(6n);
  assert.match(await client.camt053("ALPHDEFF", ALICE), /camt\.053/);
  const today = new Date().toISOString().slice(0, 10);
  assert.match(await client.camt054("ALPHDEFF", ALICE, { from: today, to: today }), /camt\.054/);
  await assert.rejects(client.camt053("ALPHDEFF", ALICE, { from: "x" }), ProblemError);
});

test("key files are read with their passphrase and no other", async () => {
  const path = `${directory}/keys/customers/${ALICE}.pem`;
  const key = await SigningKey.fromFile(path, passphrase);
  assert.equal((await readFile(path.replace(/pem$/, "pub"), "utf8")).trim(), key.publicHex);
  await assert.rejects(SigningKey.fromFile(path, `${passphrase}x`), KeyError);
  await assert.rejects(SigningKey.fromFile(path), KeyError);
});
