import assert from "node:assert/strict";
import test from "node:test";
import {
  AnswerError,
  DraftError,
  decodeOne,
  encodeOne,
  fromHex,
  type Json,
  KIND,
  type Leg,
  Network,
  newTransaction,
  parseJson,
  RefusedError,
  type Schemas,
  SigningKey,
  sign,
  Tallystick,
  toHex,
  type Transaction,
  transactionId,
  verifySignature,
} from "../src/index.js";
import { type Answer, type Asked, withGateway } from "./fake_gateway.js";

const alice = SigningKey.fromSeed(new Uint8Array(32).fill(1));
const participant = (bic: string) => ({
  bic,
  name: `O=${bic},C=DE`,
  key: "00".repeat(32),
  settlement_floors: [],
});
const euro = { kind: "currency", exponent: 2, settled_at: 0, largest_payment: 10n ** 17n } as const;
const network = new Network({
  id: "7a110001".padEnd(64, "5c"),
  participants: ["CENTDEFF", "BANKDEFF", "BANKFRPP"].map(participant),
  assets: [
    { code: "EUR", ...euro },
    { code: "USD", ...euro },
  ],
  signatures: "required",
  longest_validity_ms: 86_400_000n,
});
const UETR = "01010101-0101-4101-8101-010101010101";
const payment = {
  from: { institution: "BANKDEFF", account: "DE1", number: 7 },
  to: { institution: "BANKFRPP", account: "FR1" },
  amount: "12.50",
  asset: "EUR",
  key: alice,
};

interface Wanted {
  readonly uetr: string;
  readonly amount: string;
  readonly asset: string;
  readonly details?: string;
}

/** What an honest gateway makes of a payment. */
function honest({ uetr, amount, asset, details }: Wanted, from = { participant: 1, number: 7 }): Transaction {
  const to = { participant: 2, number: 3 };
  const legs = network.paymentLegs(from, to, asset, BigInt(amount.replace(".", "")));
  const expiry = BigInt(Date.now()) + network.longestValidityMs;
  const hash = details === undefined ? new Uint8Array(32) : fromHex(details);
  const seed = new Uint8Array(16).fill(5);
  return newTransaction(KIND.transfer, { network: network.id, uetr, expiry, details: hash, seed }, legs);
}

function draftOf(transaction: Transaction): Schemas["Draft"] {
  const id = toHex(transactionId(transaction));
  return { transaction: encodeOne(transaction), id, legs: [], signers: [alice.publicHex] };
}

const json = ({ body }: Asked) => parseJson(body.toString("utf8")) as { [name: string]: Json };
const settled = (id: string, uetr: string) => ({ id, uetr, status: "ACSC", sequence: 4n, time: null });

/** A gateway that prepares what `make` makes, and settles what is signed. */
function gateway(make: (wanted: Wanted, asked: Asked) => Schemas["PreparedPayment"]) {
  let drafts: Schemas["PreparedPayment"][] = [];
  return (asked: Asked): Answer => {
    if (asked.path === "/v1/payments/prepare") {
      drafts = (json(asked)["payments"] as unknown as Wanted[]).map((wanted) => make(wanted, asked));
      return { body: { refused: null, payments: drafts } };
    }
    const ready = drafts.flatMap(({ draft, uetr }) => (draft ? [settled(draft.id, uetr)] : []));
    return { body: { outcomes: ready } };
  };
}

const client = (url: string) => new Tallystick(url, { network });

test("a network may be added to, and not changed", () => {
  const { configuration } = network;
  const [central, bank, ...others] = configuration.participants;
  const [first, ...assets] = configuration.assets;
  assert.ok(central && bank && first);
  const later = (change: Partial<typeof configuration>) => () => {
    network.mustContinueAs(new Network({ ...configuration, ...change }));
  };
  later({
    participants: [...configuration.participants, participant("BANKESMM")],
    longest_validity_ms: 1n,
  })();
  later({ assets: [...configuration.assets, { ...first, code: "SEK" }] })();
  const changes: Partial<typeof configuration>[] = [
    { id: "00".repeat(32) },
    { id: `${network.id.slice(0, 62)}00` },
    { participants: [central, bank] },
    { participants: [bank, central, ...others] },
    { participants: [central, { ...bank, key: "11".repeat(32) }, ...others] },
    { assets: [first] },
    { assets: [{ ...first, exponent: 3 }, ...assets] },
    { assets: [{ ...first, settled_at: 1 }, ...assets] },
    { assets: [{ ...first, code: "SEK" }, ...assets] },
  ];
  for (const change of changes) assert.throws(later(change), { name: "NetworkMismatchError" });
});

test("a payment is prepared, checked, signed and handed in", async () => {
  let signed: Transaction | null = null;
  const make = (wanted: Wanted) => {
    signed = honest(wanted);
    return { uetr: wanted.uetr, draft: draftOf(signed) };
  };
  await withGateway(gateway(make), async (url, asked) => {
    const outcome = await client(url).pay({ ...payment, details: "ab".repeat(32) });
    assert.equal(outcome.status, "ACSC");
    const [prepare, submit] = asked;
    assert.ok(prepare && submit && asked.length === 2 && signed);
    assert.deepEqual(json(prepare)["payments"], [
      {
        uetr: outcome.uetr,
        from: { institution: "BANKDEFF", account: "DE1" },
        to: { institution: "BANKFRPP", account: "FR1" },
        amount: "12.50",
        asset: "EUR",
        details: "ab".repeat(32),
      },
    ]);
    const [handed] = json(submit)["payments"] as unknown as Schemas["PreparedPayment"]["draft"][];
    const [signature] = (handed as unknown as { signatures: { key: string; signature: string }[] })
      .signatures;
    assert.ok(signature);
    assert.equal(signature.key, alice.publicHex);
    assert.ok(verifySignature(alice.publicKey, transactionId(signed), fromHex(signature.signature)));
  });
});

const [debit, , , credit] = honest({
  uetr: UETR,
  amount: "12.50",
  asset: "EUR",
}).legs;
const changeLeg = (position: number, change: Partial<Leg>) => (transaction: Transaction) => ({
  ...transaction,
  legs: transaction.legs.map((leg, at) => (at === position ? { ...leg, ...change } : leg)),
});

const LIES: [string, string, (transaction: Transaction) => Transaction][] = [
  ["another kind", "kind", (draft) => ({ ...draft, kind: KIND.issue })],
  ["another network", "network", (draft) => ({ ...draft, network: "00".repeat(32) })],
  ["a network that begins alike", "id", (draft) => ({ ...draft, network: `${network.id.slice(0, 62)}00` })],
  ["another reference", "uetr", (draft) => ({ ...draft, uetr: "01010101-0101-4101-8101-010101010102" })],
  ["other details", "details", (draft) => ({ ...draft, details: new Uint8Array(32).fill(1) })],
  ["a signature already", "form", (draft) => sign(draft, alice)],
  ["another account of the payer's bank", "debtor", changeLeg(0, { account: 8 })],
  ["an account of another bank", "debtor", changeLeg(0, { participant: 0 })],
  ["another creditor's bank", "creditor", changeLeg(3, { participant: 1 })],
  [
    "a later expiry than the network allows",
    "expiry",
    (draft) => ({ ...draft, expiry: BigInt(Date.now()) + network.longestValidityMs + 120_000n }),
  ],
  ["an institution's own account for an alias", "creditor", changeLeg(3, { account: 2 ** 31 + 1 })],
  ["more from the payer", "legs", changeLeg(0, { amount: -1251n })],
  ["less to the creditor", "legs", changeLeg(3, { amount: 1249n })],
  ["another asset", "legs", (draft) => ({ ...draft, legs: draft.legs.map((leg) => ({ ...leg, asset: 1 })) })],
  ["another settlement account", "legs", changeLeg(1, { account: 9 })],
  ["a leg more", "legs", (draft) => ({ ...draft, legs: [debit, ...draft.legs].flatMap((leg) => leg ?? []) })],
  [
    "a leg more at the end",
    "legs",
    (draft) => ({ ...draft, legs: [...draft.legs, credit].flatMap((leg) => leg ?? []) }),
  ],
  ["a leg less", "legs", (draft) => ({ ...draft, legs: draft.legs.filter((_, at) => at !== 1) })],
];

for (const [what, fault, lie] of LIES) {
  test(`a draft with ${what} is not signed`, async () => {
    const make = (wanted: Wanted) => ({ uetr: wanted.uetr, draft: draftOf(lie(honest(wanted))) });
    await withGateway(gateway(make), async (url, asked) => {
      await assert.rejects(
        client(url).pay(payment),
        (error: unknown) => error instanceof DraftError && error.fault === fault,
      );
      assert.deepEqual(
        asked.map(({ path }) => path),
        ["/v1/payments/prepare"],
      );
    });
  });
}

function withoutLegs(transaction: string): string {
  return encodeOne({ ...decodeOne(transaction, network.id), legs: [] });
}

test("a draft that lies about itself is not signed", async () => {
  const lies: [string, (draft: Schemas["Draft"]) => Schemas["Draft"]][] = [
    ["id", (draft) => ({ ...draft, id: "00".repeat(32) })],
    ["form", (draft) => ({ ...draft, transaction: `${draft.transaction}00` })],
    ["form", (draft) => ({ ...draft, transaction: "zz" })],
    // version, four counts, then kind, legs and participants of the header
    [
      "form",
      (draft) => ({
        ...draft,
        transaction: `${draft.transaction.slice(0, 38)}02${draft.transaction.slice(40)}`,
      }),
    ],
    ["form", ({ transaction, ...draft }) => ({ ...draft, transaction: withoutLegs(transaction) })],
    ["signers", (draft) => ({ ...draft, signers: ["00".repeat(32)] })],
    ["signers", (draft) => ({ ...draft, signers: [] })],
  ];
  for (const [fault, lie] of lies) {
    const make = (wanted: Wanted) => ({ uetr: wanted.uetr, draft: lie(draftOf(honest(wanted))) });
    await withGateway(gateway(make), async (url) => {
      await assert.rejects(
        client(url).pay(payment),
        (error: unknown) => error instanceof DraftError && error.fault === fault,
        fault,
      );
    });
  }
});

test("a creditor whose number is known is that creditor", async () => {
  const make = (wanted: Wanted) => ({ uetr: wanted.uetr, draft: draftOf(honest(wanted)) });
  await withGateway(gateway(make), async (url) => {
    const to = { institution: "BANKFRPP", account: "FR1" };
    assert.equal((await client(url).pay({ ...payment, to: { ...to, number: 3 } })).status, "ACSC");
    for (const other of [
      { ...to, number: 4 },
      { ...to, account: "4" },
      { ...to, account: "own:EUR" },
    ]) {
      await assert.rejects(
        client(url).pay({ ...payment, to: other }),
        (error: unknown) => error instanceof DraftError && error.fault === "creditor",
      );
    }
  });
});

test("an alias of the payer is asked for, and has to be the key's", async () => {
  const account = {
    institution: "BANKDEFF",
    number: 7n,
    asset: "EUR",
    balance: "1.00",
    minor_units: 100n,
    floor: "0.00",
    status: "open",
    owner: alice.publicHex,
  };
  const make = (wanted: Wanted) => ({ uetr: wanted.uetr, draft: draftOf(honest(wanted)) });
  const honestly = gateway(make);
  const from = { institution: "BANKDEFF", account: "DE1" };
  const paying = (shown: typeof account, use: (url: string) => Promise<void>) =>
    withGateway((asked) => (asked.method === "GET" ? { body: shown } : honestly(asked)), use);
  await paying(account, async (url) => {
    assert.equal((await client(url).pay({ ...payment, from })).status, "ACSC");
  });
  await paying({ ...account, number: 8n }, async (url) => {
    await assert.rejects(client(url).pay({ ...payment, from }), DraftError);
  });
  await paying({ ...account, owner: "11".repeat(32) }, async (url) => {
    await assert.rejects(client(url).pay({ ...payment, from }), /does not belong to the key/);
  });
});

test("a payer whose number is not known pays from no account of an institution's own", async () => {
  // A user who may not look at accounts; the key could be the institution's.
  const own = { participant: 1, number: 2 ** 31 + 1 };
  const make = (wanted: Wanted) => ({ uetr: wanted.uetr, draft: draftOf(honest(wanted, own)) });
  const honestly = gateway(make);
  const no = { type: "x", title: "t", status: 403n, detail: "d", code: "AG01" };
  const answer = (asked: Asked) => (asked.method === "GET" ? { status: 403, body: no } : honestly(asked));
  await withGateway(answer, async (url) => {
    const from = { institution: "BANKDEFF", account: "DE1" };
    const isDebtor = (error: unknown) => error instanceof DraftError && error.fault === "debtor";
    await assert.rejects(client(url).pay({ ...payment, from }), isDebtor);
    const named = { institution: "BANKDEFF", account: "own:EUR" };
    assert.equal((await client(url).pay({ ...payment, from: named })).status, "ACSC");
  });
});

test("refusals are told for each payment", async () => {
  const no = { code: "AC01", text: "there is no such account" };
  const make = (wanted: Wanted) =>
    wanted.amount === "12.50"
      ? { uetr: wanted.uetr, draft: draftOf(honest(wanted)) }
      : { uetr: wanted.uetr, refused: no };
  await withGateway(gateway(make), async (url) => {
    const [refused, paid] = await client(url).payAll([{ ...payment, amount: "0.01" }, payment]);
    assert.ok(refused instanceof RefusedError && refused.code === "AC01");
    assert.ok(paid !== undefined && !(paid instanceof RefusedError) && paid.status === "ACSC");
    await assert.rejects(client(url).pay({ ...payment, amount: "0.01" }), RefusedError);
    assert.deepEqual(await client(url).payAll([]), []);
  });
});

test("the outcome of another payment is none", async () => {
  const make = (wanted: Wanted) => ({ uetr: wanted.uetr, draft: draftOf(honest(wanted)) });
  const honestly = gateway(make);
  const other = (asked: Asked): Answer =>
    asked.path === "/v1/payments" ? { body: { outcomes: [settled("00".repeat(32), "x")] } } : honestly(asked);
  await withGateway(other, async (url) => {
    await assert.rejects(client(url).pay(payment), AnswerError);
    await assert.rejects(client(url).pay(payment, { idempotencyKey: "order-1" }), AnswerError);
  });
});

test("with an idempotency key a repetition has the same reference, and may be sent again", async () => {
  const make = (wanted: Wanted) => ({ uetr: wanted.uetr, draft: draftOf(honest(wanted)) });
  const honestly = gateway(make);
  let cut = 0;
  const breaking = (asked: Asked): Answer =>
    asked.path === "/v1/payments" && cut++ === 0 ? "cut" : honestly(asked);
  await withGateway(breaking, async (url, asked) => {
    const pay = (idempotencyKey: string) => client(url).payAll([payment, payment], { idempotencyKey });
    const [first, again, other] = [await pay("order-1"), await pay("order-1"), await pay("order-2")];
    const references = (outcomes: typeof first) => outcomes.map(({ uetr }) => uetr);
    assert.deepEqual(references(first), references(again));
    assert.equal(new Set([...references(first), ...references(other)]).size, 4);
    assert.match(
      references(first)[0] ?? "",
      /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/,
    );
    assert.ok(asked.every(({ headers }) => /^order-[12]$/.test(String(headers["idempotency-key"]))));
    await assert.rejects(pay("two words"), /idempotency key/);
  });
});

test("what cannot be paid is not asked for", async () => {
  await withGateway(
    () => "cut",
    async (url, asked) => {
      for (const wrong of [
        { amount: "0" },
        { amount: "-1" },
        { amount: "1.005" },
        { asset: "GBP" },
        { uetr: "x" },
      ]) {
        await assert.rejects(
          client(url).pay({ ...payment, ...wrong }),
          { name: "ArgumentError" },
          JSON.stringify(wrong, String),
        );
      }
      assert.equal(asked.length, 0);
    },
  );
});

test("an amount that is no decimal as text is refused by the compiler, and before anything is asked", async () => {
  await withGateway(
    () => "cut",
    async (url, asked) => {
      const paying = client(url);
      const isTold = (error: unknown) => error instanceof TypeError && /"12" or "0\.12"/.test(error.message);
      // @ts-expect-error -- minor units, or whole ones?
      await assert.rejects(paying.pay({ ...payment, amount: 12n }), isTold);
      // @ts-expect-error -- as above
      await assert.rejects(paying.pay({ ...payment, amount: 12 }), isTold);
      // @ts-expect-error -- as above
      await assert.rejects(paying.payAll([{ ...payment, amount: 12n }]), isTold);
      const account = { institution: "BANKDEFF", alias: "DE1", asset: "EUR", owner: alice };
      // @ts-expect-error -- as above
      await assert.rejects(paying.openAccount({ ...account, floor: -12n }, alice), /"-12" or "-0\.12"/);
      assert.equal(asked.length, 0);
    },
  );
  const shown = { institution: "BANKDEFF", number: 7n, asset: "EUR", balance: "1.00", minor_units: 100n };
  const state = { ...shown, floor: "0.00", status: "open", owner: alice.publicHex };
  await withGateway(
    ({ method }) => (method === "GET" ? { body: state } : "cut"),
    async (url, asked) => {
      const account = { institution: "BANKDEFF", account: "7" };
      // @ts-expect-error -- as above
      await assert.rejects(client(url).setFloor(account, -12n, alice), TypeError);
      assert.ok(asked.every(({ method }) => method === "GET"));
    },
  );
  await withGateway(
    ({ path }) =>
      path.endsWith("/prepare")
        ? {
            body: {
              refused: null,
              payments: [{ uetr: UETR, draft: draftOf(honest({ ...payment, uetr: UETR })) }],
            },
          }
        : "cut",
    async (url, asked) => {
      const described = [{ ...payment, amount: 12n }];
      // @ts-expect-error -- as above
      await assert.rejects(client(url).submitMessage("<Document/>", described), TypeError);
      assert.equal(asked.length, 1);
    },
  );
});
