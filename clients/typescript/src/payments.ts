/** Payments: prepared by the gateway, checked and signed here, handed in. */

import { formatAmount, MAX_AMOUNT, parseAmount } from "./amount.js";
import { checkDraft, type NamedAccount, type Wanted } from "./draft.js";
import {
  AccessError,
  AnswerError,
  ArgumentError,
  DraftError,
  NotFoundError,
  RefusedError,
} from "./errors.js";
import { domain, keyed } from "./hash.js";
import { fromHex, toHex } from "./hex.js";
import { formatJson } from "./json.js";
import type { SigningKey } from "./key.js";
import type { Network } from "./network.js";
import type { Schemas } from "./schema.js";
import { type Session, unlessRefused } from "./session.js";
import { transactionId } from "./transaction.js";
import type { Asked } from "./transport.js";
import { newUetr, uetrBytes, uetrText } from "./uetr.js";
import { Writer } from "./wire.js";

/** One side of a payment. */
export interface Party {
  /** BIC. */
  readonly institution: string;
  /** IBAN or other alias, number, or role such as `own:EUR`. */
  readonly account: string;
  /** Its number in the institution's books, where it is known from elsewhere: then the gateway cannot name another. */
  readonly number?: number;
}

/** A payment to be made. */
export interface Payment {
  readonly from: Party;
  readonly to: Party;
  /** A decimal as text, such as `"12.34"`. */
  readonly amount: string;
  /** Code of the asset. */
  readonly asset: string;
  /** The payer's key. */
  readonly key: SigningKey;
  /** End-to-end reference, a UUID, used once; made here without it. */
  readonly uetr?: string;
  /** Hash of what is kept off the ledger: 32 bytes, or 64 hexadecimal digits. */
  readonly details?: Uint8Array | string;
}

/** How payments are handed in. */
export interface PaymentOptions {
  /**
   * Makes a repetition safe: the reference of a payment without one follows from this, the payer's key and the payment's
   * position, and a payment that was received before is answered with what became of the first, until that expires (by default a minute
   * less than a day after it); after that it is paid again. 1 to 64 visible ASCII characters.
   */
  readonly idempotencyKey?: string;
}

const REFERENCE_KEY = domain("tallystick client reference v1");

/**
 * Pays: has the gateway prepare the payment, checks that it is the one that was asked for, signs it and hands it in. Returns
 * what became of it: settled (`ACSC`), or not decided yet (`PDNG`).
 *
 * @throws {RefusedError} when it is refused
 * @throws {DraftError} when the gateway prepared something else; then nothing was signed
 */
export async function pay(
  session: Session,
  payment: Payment,
  options: PaymentOptions = {},
): Promise<Schemas["OutcomeView"]> {
  const [outcome] = await payAll(session, [payment], options);
  if (outcome === undefined) throw new AnswerError("the gateway does not tell what became of the payment");
  if (outcome instanceof RefusedError) throw outcome;
  return unlessRefused(outcome);
}

/**
 * Pays several, each for itself: some may be refused and others settled. Returns for each what became of it, or why the
 * gateway did not prepare it.
 */
export async function payAll(
  session: Session,
  payments: readonly Payment[],
  options: PaymentOptions = {},
): Promise<(Schemas["OutcomeView"] | RefusedError)[]> {
  if (payments.length === 0) return [];
  if (options.idempotencyKey !== undefined && !/^[!-~]{1,64}$/.test(options.idempotencyKey)) {
    throw new ArgumentError("an idempotency key has 1 to 64 visible ASCII characters");
  }
  const drafts = await prepare(session, payments, options);
  const ready = drafts.filter((draft): draft is Ready => draft instanceof Ready);
  const outcomes = ready.length === 0 ? [] : await handIn(session, ready, options);
  return drafts.map((draft) => {
    if (draft instanceof RefusedError) return draft;
    const outcome = outcomes[ready.indexOf(draft)];
    const isRepetition = options.idempotencyKey !== undefined;
    if (outcome?.uetr !== draft.uetr || (!isRepetition && outcome.id !== draft.id)) {
      throw new AnswerError(`the gateway does not tell what became of ${draft.uetr}`);
    }
    return outcome;
  });
}

/** A payment that was checked and signed. */
class Ready {
  constructor(
    readonly uetr: string,
    readonly id: string,
    readonly transaction: string,
    readonly signature: Uint8Array,
    readonly key: SigningKey,
  ) {}
}

/** Has the gateway prepare payments, checks each draft and signs it. */
async function prepare(
  session: Session,
  payments: readonly Payment[],
  options: PaymentOptions,
): Promise<(Ready | RefusedError)[]> {
  const network = await session.network();
  const wanted = await Promise.all(
    payments.map((payment, at) => wantedOf(session, network, payment, at, options)),
  );
  const request = wanted.map((each, at) => requestOf(network, each, payments[at]));
  const asked = { ...post(["v1", "payments", "prepare"], { payments: request }, options), isSafe: true };
  const body = await session.transport.json("PreparedBody", asked);
  if (body.refused) throw new RefusedError(body.refused.code, body.refused.text, null);
  if (body.payments.length !== wanted.length) {
    throw new DraftError("form", `${body.payments.length} payments were prepared of ${wanted.length}`);
  }
  return wanted.map((each, at) => {
    const { refused, draft } = body.payments[at] ?? {};
    if (refused) return new RefusedError(refused.code, refused.text, each.uetr);
    if (!draft) throw new DraftError("form", "there is neither a draft nor a refusal");
    const { key } = each;
    const transaction = checkDraft(network, draft, { ...each, signers: [key.publicKey] });
    const id = transactionId(transaction);
    return new Ready(each.uetr, toHex(id), draft.transaction, key.sign(id), key);
  });
}

async function handIn(
  session: Session,
  ready: readonly Ready[],
  options: PaymentOptions,
): Promise<Schemas["OutcomeView"][]> {
  const payments = ready.map(({ transaction, key, signature }) => ({
    transaction,
    signatures: [{ key: key.publicHex, signature: toHex(signature) }],
  }));
  const asked = post(["v1", "payments"], { payments }, options);
  return (await session.transport.json("OutcomesBody", asked)).outcomes;
}

function post(path: readonly string[], body: unknown, { idempotencyKey }: PaymentOptions): Asked {
  return {
    method: "POST",
    path,
    body: { type: "application/json", content: formatJson(body) },
    ...(idempotencyKey === undefined ? {} : { headers: { "idempotency-key": idempotencyKey }, isSafe: true }),
  };
}

type WantedPayment = Omit<Wanted, "signers"> & { readonly key: SigningKey };

/** What the draft of a payment has to be. */
async function wantedOf(
  session: Session,
  network: Network,
  payment: Payment,
  position: number,
  { idempotencyKey }: PaymentOptions,
): Promise<WantedPayment> {
  const { asset, key } = payment;
  const amount = amountOf(network, payment.amount, asset);
  const { details = new Uint8Array(32) } = payment;
  return {
    from: await payer(session, network, payment),
    to: named(network, payment.to),
    amount,
    asset,
    uetr: payment.uetr === undefined ? referenceOf(key, position, idempotencyKey) : sameUetr(payment.uetr),
    details: typeof details === "string" ? fromHex(details, "details", 32) : details,
    key,
  };
}

/** The minor units of an amount that can be paid. */
export function amountOf(network: Network, amount: string, asset: string): bigint {
  const minorUnits = parseAmount(amount, network.asset(asset).exponent);
  if (minorUnits <= 0n || minorUnits > MAX_AMOUNT) {
    throw new ArgumentError("an amount is above zero and has at most 18 digits");
  }
  return minorUnits;
}

/** An account as far as its name tells. */
export function named(network: Network, { institution, account, number }: Party): NamedAccount {
  const participant = network.participant(institution);
  return { participant, number: number ?? network.accountNumber(account) };
}

/** The payer's account. An alias is asked for, so that the draft's account is the one that the gateway shows under it. */
async function payer(session: Session, network: Network, { from, key }: Payment): Promise<NamedAccount> {
  const account = named(network, from);
  if (account.number !== null) return account;
  try {
    const { number, owner } = await session.aliased(from.institution, from.account);
    if (owner !== key.publicHex)
      throw new ArgumentError(`${from.account} does not belong to the key ${key.publicHex}`);
    return { ...account, number };
  } catch (error) {
    // A user who may only submit may not look; and what there is not, the gateway refuses to prepare.
    if (error instanceof AccessError || error instanceof NotFoundError) return account;
    throw error;
  }
}

function requestOf(network: Network, wanted: WantedPayment, payment: Payment | undefined) {
  const side = (party: Party | undefined) => ({ institution: party?.institution, account: party?.account });
  return {
    uetr: wanted.uetr,
    from: side(payment?.from),
    to: side(payment?.to),
    amount: formatAmount(wanted.amount, network.asset(wanted.asset).exponent),
    asset: wanted.asset,
    details: wanted.details === null ? undefined : toHex(wanted.details),
  };
}

/** The reference as it is written here. */
function sameUetr(text: string): string {
  return uetrText(uetrBytes(text));
}

/** A new reference, or the one that follows from an idempotency key: a UUID of version 8 (RFC 9562, section 5.8). */
function referenceOf(key: SigningKey, position: number, idempotencyKey: string | undefined): string {
  if (idempotencyKey === undefined) return newUetr();
  const input = new Writer()
    .exactly(32, key.publicKey)
    .u32(position)
    .bytes(new TextEncoder().encode(idempotencyKey));
  const bytes = keyed(REFERENCE_KEY, input.finish()).slice(0, 16);
  const [version = 0, variant = 0] = [bytes[6], bytes[8]];
  bytes.set([(version & 0x0f) | 0x80], 6);
  bytes.set([(variant & 0x3f) | 0x80], 8);
  return uetrText(bytes);
}
