/** What a gateway cannot make the client sign or believe. */

import assert from "node:assert/strict";
import test from "node:test";
import {
  AnswerError,
  type AccountOrder,
  decodeOne,
  formatJson,
  Network,
  parseProof,
  ProofError,
  type Schemas,
  SigningKey,
  Tallystick,
  TallystickError,
  transactionId,
  verifyProof,
} from "../src/index.js";
import { type Answer, type Asked, withGateway } from "./fake_gateway.js";
import { goldenProof } from "./golden.js";
import { madeKeys, madeProof } from "./made_proof.js";

const bank = SigningKey.fromSeed(new Uint8Array(32).fill(2));
const euro = { kind: "currency", exponent: 2, settled_at: 0, largest_payment: 10n ** 17n } as const;
const network = new Network({
  id: madeKeys.network,
  participants: madeKeys.institutions.map(({ bic, key }) => ({
    bic,
    name: `O=${bic},C=DE`,
    key: Buffer.from(key).toString("hex"),
    settlement_floors: [],
  })),
  assets: [
    { code: "EUR", ...euro },
    { code: "JPY", ...euro, exponent: 0 },
  ],
  signatures: "required",
  longest_validity_ms: 86_400_000n,
});
const state = {
  institution: "BANKDEFF",
  number: 8n,
  asset: "EUR",
  balance: "1.00",
  minor_units: 100n,
  floor: "0.00",
  status: "open",
  owner: bank.publicHex,
};

/** Runs `use` against a gateway that answers so, and returns the orders that were handed in. */
async function orders(shown: object, use: (client: Tallystick) => Promise<unknown>): Promise<AccountOrder[]> {
  const taken: AccountOrder[] = [];
  const answer = (asked: Asked): Answer => {
    if (asked.method === "GET" && asked.path.split("/").length === 4) {
      return { body: { institution: "BANKDEFF", next_account: 8n } };
    }
    if (asked.method === "GET") return { body: shown };
    const { order } = decodeOne(asked.body.toString("utf8"), network.id);
    if (order !== null) taken.push(order);
    return "cut";
  };
  await withGateway(answer, async (url) => {
    const client = new Tallystick(url, { network, retries: 0 });
    await assert.rejects(use(client), TallystickError);
    client.close();
  });
  return taken;
}

test("an order is for the account whose number was given, whatever the gateway shows", async () => {
  for (const [name, number] of [
    ["7", 7],
    ["own:EUR", 2 ** 31 + 1],
  ] as const) {
    const account = { institution: "BANKDEFF", account: name };
    const [closing] = await orders(state, (client) => client.closeAccount(account, bank));
    assert.deepEqual([closing?.action, closing?.number], ["close", number]);
    const [limiting] = await orders(state, (client) => client.setFloor(account, "-2", bank));
    assert.deepEqual([limiting?.action, limiting?.number], ["set-floor", number]);
  }
  const alias = { institution: "BANKDEFF", account: "DE1" };
  const [freezing] = await orders(state, (client) => client.freezeAccount({ ...alias, number: 7 }, bank));
  assert.equal(freezing?.number, 7);
  const [releasing] = await orders(state, (client) => client.releaseAccount(alias, bank));
  assert.equal(releasing?.number, 8);
  const own = { ...state, number: 2n ** 31n + 1n };
  assert.deepEqual(await orders(own, (client) => client.closeAccount(alias, bank)), []);
});

test("a floor is in the asset that the account is said to have", async () => {
  // The order has minor units alone: in another asset the same decimal is another floor.
  const yen = { ...state, asset: "JPY" };
  const set = (account: string, asset?: string) =>
    orders(yen, (client) =>
      client.setFloor({ institution: "BANKDEFF", account, ...(asset && { asset }) }, "-20", bank),
    );
  const [told] = await set("7");
  assert.ok(told?.action === "set-floor" && told.floor === -20n);
  assert.deepEqual(await set("7", "EUR"), []);
  assert.deepEqual(await set("own:EUR"), []);
  const [given] = await set("7", "JPY");
  assert.ok(given?.action === "set-floor" && given.floor === -20n);
});

test("an account that is opened is the one that was ordered", async () => {
  const wanted = { institution: "BANKDEFF", alias: "DE1", asset: "EUR", owner: bank };
  const answers =
    (shown: object) =>
    (asked: Asked): Answer => {
      if (asked.method === "POST") {
        const [transaction] = [decodeOne(asked.body.toString("utf8"), network.id)];
        const id = Buffer.from(transactionId(transaction)).toString("hex");
        return {
          body: { outcomes: [{ id, uetr: transaction.uetr, status: "ACSC", sequence: 1n, time: null }] },
        };
      }
      const isBooks = asked.path.split("/").length === 4;
      return { body: isBooks ? { institution: "BANKDEFF", next_account: 8n } : shown };
    };
  await withGateway(answers(state), async (url) => {
    assert.equal((await new Tallystick(url, { network }).openAccount(wanted, bank)).number, 8);
  });
  for (const other of [
    { ...state, number: 9n },
    { ...state, asset: "JPY" },
    { ...state, owner: "11".repeat(32) },
  ]) {
    await withGateway(answers(other), async (url) => {
      await assert.rejects(new Tallystick(url, { network }).openAccount(wanted, bank), AnswerError);
    });
  }
});

test("a proof, a receipt and an outcome are of the transaction that was asked for", async () => {
  const proof = madeProof();
  const { id } = proof.receipt;
  const { uetr } = proof.transaction;
  const outcome = { id, uetr, status: "ACSC", sequence: 0n, time: null };
  const answer = ({ path }: Asked): Answer =>
    path.endsWith("/proof")
      ? { body: proof }
      : path.endsWith("/receipt")
        ? { body: proof.receipt }
        : { body: outcome };
  await withGateway(answer, async (url) => {
    const client = new Tallystick(url);
    for (const name of [id, uetr, id.toUpperCase(), uetr.toUpperCase()]) {
      assert.equal(verifyProof(await client.proof(name), madeKeys).id, id);
      assert.equal((await client.status(name)).id, id);
    }
    const isAnothers = (error: unknown) => error instanceof ProofError && error.fault === "id";
    for (const name of ["00".repeat(32), "01010101-0101-4101-8101-010101010101"]) {
      // It would verify: it is a proof, of another payment.
      await assert.rejects(client.proof(name), isAnothers);
      await assert.rejects(client.status(name), AnswerError);
    }
    assert.equal((await client.receipt(uetr, { id: id.toUpperCase() })).id, id);
    assert.equal((await client.receipt(uetr)).id, id);
    await assert.rejects(client.receipt(uetr, { id: "00".repeat(32) }), isAnothers);
    client.close();
  });
});

test("a proof that the log was only appended to is between the sizes that were asked for", async () => {
  const { head } = parseProof(goldenProof).receipt;
  const shown: Schemas["Consistency"] = { first: head, second: head, path: [] };
  await withGateway(
    () => ({ body: formatJson(shown) }),
    async (url) => {
      const client = new Tallystick(url);
      assert.deepEqual(await client.consistency(50n, 50n), shown);
      for (const [first, second] of [
        [10n, 50n],
        [50n, 60n],
      ] as const) {
        await assert.rejects(
          client.consistency(first, second),
          (error: unknown) => error instanceof ProofError && error.fault === "other-head",
        );
      }
      client.close();
    },
  );
});
