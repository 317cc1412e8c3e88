/** The client of a gateway. */

import {
  type AccountReference,
  type AssetReference,
  changeAccount,
  type NewAccount,
  openAccount,
} from "./accounts.js";
import { AnswerError, ProofError, type RefusedError } from "./errors.js";
import { type EventsOptions, events, type OutcomeEvent } from "./events.js";
import type { SigningKey } from "./key.js";
import { type MessagePayment, prepareMessage, submitMessage } from "./messages.js";
import type { Network } from "./network.js";
import { type Payment, type PaymentOptions, pay, payAll } from "./payments.js";
import type { Keys } from "./proof/keys.js";
import type { Proof } from "./proof/proof.js";
import type { Schemas } from "./schema.js";
import { Session } from "./session.js";
import type { Terms, Transaction } from "./transaction.js";
import { type Asked, Transport, type TransportOptions } from "./transport.js";

/** How a gateway is reached, and what it is held to. */
export interface TallystickOptions extends TransportOptions {
  /** The network as it was once seen, see {@link Network.toJson}: the gateway may only add to it. */
  readonly network?: Network;
  /** The network's public keys: the gateway's network must have them. */
  readonly keys?: Keys;
}

/** Which part of a statement is wanted. */
export interface StatementOptions {
  /** How many entries are asked for at once, 1 to 1000; 100 without it. */
  readonly pageSize?: number;
  /** Only entries with lower sequence numbers. */
  readonly before?: bigint;
  /** `local`: what the gateway knows at once, instead of all that was told anywhere before. */
  readonly consistency?: "latest" | "local";
}

/** Days of UTC as `2026-01-31`, both included. */
export interface Days {
  /** The day of `to` without it. */
  readonly from?: string | undefined;
  /** Today without it. */
  readonly to?: string | undefined;
}

/**
 * The client of a gateway. It does not trust the gateway with what is signed: transactions are built or checked here against
 * the network's configuration. That configuration is the gateway's own word unless a network or keys are given; then, and once
 * it was read, it may only be added to.
 *
 * Methods throw {@link TallystickError}s: {@link ProblemError} when the gateway refuses a request, {@link TransportError} when
 * it does not answer, {@link RefusedError} when the network refuses a payment or an order.
 */
export class Tallystick {
  readonly #session: Session;

  /** @param url such as `https://127.0.0.1:8443` */
  constructor(url: string, options: TallystickOptions = {}) {
    const { network = null, keys = null, ...transport } = options;
    this.#session = new Session(new Transport(url, transport), network, keys);
  }

  /** Ends the connections that are open. */
  close(): void {
    this.#session.transport.close();
  }

  /** Who takes part, the sums of the books that the user may see, and the head of the log. */
  async network(): Promise<Schemas["NetworkView"]> {
    return (await this.#session.view()).view;
  }

  /** The network's configuration, to build transactions with or to pin; asks only where it is not known yet. */
  async configuration(): Promise<Network> {
    return this.#session.network();
  }

  /** The institutions that take part. */
  async institutions(): Promise<Schemas["InstitutionView"][]> {
    return (await this.#get("InstitutionsBody", ["institutions"])).institutions;
  }

  /** An institution. */
  async institution(bic: string): Promise<Schemas["InstitutionView"]> {
    return this.#get("InstitutionView", ["institutions", bic]);
  }

  /** What accounts can hold. */
  async assets(): Promise<Schemas["AssetView"][]> {
    return (await this.#get("AssetsBody", ["assets"])).assets;
  }

  /** An asset. @param code its currency code or ISIN */
  async asset(code: string): Promise<Schemas["AssetView"]> {
    return this.#get("AssetView", ["assets", code]);
  }

  /** The books of an institution: which account is opened next. */
  async books(bic: string): Promise<Schemas["BooksView"]> {
    return this.#get("BooksView", ["accounts", bic]);
  }

  /** An account: what is on it, whose it is. */
  async account(
    bic: string,
    account: string,
    { consistency }: Pick<StatementOptions, "consistency"> = {},
  ): Promise<Schemas["AccountBody"]> {
    return this.#get("AccountBody", ["accounts", bic, account], { consistency });
  }

  /** One page of an account's entries, the newest first. */
  async statementPage(
    bic: string,
    account: string,
    options: StatementOptions = {},
  ): Promise<Schemas["StatementBody"]> {
    const { pageSize: limit = 100, before, consistency } = options;
    return this.#get("StatementBody", ["accounts", bic, account, "statement"], {
      limit,
      before,
      consistency,
    });
  }

  /** An account's entries, the newest first; pages are asked for as they are needed. */
  async *statement(
    bic: string,
    account: string,
    options: StatementOptions = {},
  ): AsyncGenerator<Schemas["EntryView"], void, undefined> {
    let before = options.before ?? null;
    do {
      const page = await this.statementPage(bic, account, before === null ? options : { ...options, before });
      yield* page.entries;
      before = page.next ?? null;
    } while (before !== null);
  }

  /** An account's statement for days of UTC, today without them: a camt.053 as XML. */
  async camt053(bic: string, account: string, days: Days = {}): Promise<string> {
    return this.#report(bic, account, "camt.053", days);
  }

  /** What was booked on an account on days of UTC, today without them: a camt.054 as XML. @throws {NotFoundError} if nothing was */
  async camt054(bic: string, account: string, days: Days = {}): Promise<string> {
    return this.#report(bic, account, "camt.054", days);
  }

  /**
   * What became of a transaction by the gateway's word; {@link Tallystick.proof} is the evidence of it.
   *
   * @param transaction its UETR, or its id in hexadecimal
   * @throws {AnswerError} when the gateway answers for another one
   */
  async status(transaction: string): Promise<Schemas["OutcomeView"]> {
    const outcome = await this.#get("OutcomeView", ["transactions", transaction]);
    if (![outcome.uetr, outcome.id].includes(transaction.toLowerCase())) {
      throw new AnswerError(
        `the gateway answers for ${outcome.id} (${outcome.uetr}), not for ${transaction}`,
      );
    }
    return outcome;
  }

  /**
   * What became of each transaction with an account at an institution that the user acts for, as it becomes final, in the one
   * global order, without end where none is given: those after a sequence number, or, without one, those from when the first is
   * asked for.
   *
   * Where the connection ends, is silent, or the gateway cannot answer now, it is opened again after a pause, and goes on where
   * it was; the first time, as often as other requests are sent again. Throws the signal's reason when that is aborted.
   *
   * @throws {AccessError} when the user may not, or no longer
   */
  events(options: EventsOptions = {}): AsyncGenerator<OutcomeEvent, void, undefined> {
    return events(this.#session, options);
  }

  /**
   * Proof of a transaction's place in the log, without its contents; see {@link verifyReceipt}.
   *
   * @param id of what was signed, in hexadecimal. A receipt has no reference: without the id, it is of whatever transaction
   * the gateway chose, and its id has to be compared.
   * @throws {ProofError} when it is of another id
   */
  async receipt(uetr: string, { id }: { readonly id?: string } = {}): Promise<Schemas["Receipt"]> {
    const receipt = await this.#get("Receipt", ["transactions", uetr, "receipt"], {}, true);
    if (id !== undefined && receipt.id.toLowerCase() !== id.toLowerCase()) {
      throw new ProofError("id", `the gateway shows a receipt of ${receipt.id}, not of ${id}`);
    }
    return receipt;
  }

  /**
   * Proof of what became of a transaction, for {@link verifyProof}. Ask by the id of what was signed: somebody else may have
   * used the same UETR for another transaction before.
   *
   * @param transaction its UETR, or its id in hexadecimal
   * @param legs BICs of the institutions whose legs are shown
   * @throws {ProofError} when it is of another transaction
   */
  async proof(
    transaction: string,
    { legs = [] }: { readonly legs?: readonly string[] } = {},
  ): Promise<Proof> {
    const query = legs.length === 0 ? {} : { legs: legs.join(",") };
    const proof = await this.#get("Proof", ["transactions", transaction, "proof"], query, true);
    const names = [proof.transaction.uetr, proof.receipt.id].map((name) => name.toLowerCase());
    if (!names.includes(transaction.toLowerCase())) {
      throw new ProofError("id", `the gateway shows a proof of ${names.join(", ")}, not of ${transaction}`);
    }
    return proof;
  }

  /** The signed head of the log of decisions; see {@link verifyTreeHead}. */
  async treeHead(): Promise<Schemas["SignedTreeHead"]> {
    return this.#get("SignedTreeHead", ["tree-head"], {}, true);
  }

  /**
   * Proof that the log was only ever appended to between two sizes; see {@link verifyConsistencyProof}.
   *
   * @throws {ProofError} when it is between other sizes
   */
  async consistency(first: bigint, second: bigint): Promise<Schemas["Consistency"]> {
    const path = ["tree-head", "consistency"];
    const shown = await this.#get("Consistency", path, { first, second }, true);
    if (shown.first.head.size !== first || shown.second.head.size !== second) {
      throw new ProofError(
        "other-head",
        `the gateway shows other tree heads than those of ${first} and ${second}`,
      );
    }
    return shown;
  }

  /** Whether the gateway lives. One that does not still answers. */
  async health(): Promise<Schemas["HealthView"]> {
    return this.#session.transport.json("HealthView", {
      method: "GET",
      path: ["health"],
      alsoAnswers: [503],
    });
  }

  /** Whether payments are taken now. */
  async ready(): Promise<Schemas["HealthView"]> {
    return this.#session.transport.json("HealthView", { method: "GET", path: ["ready"], alsoAnswers: [503] });
  }

  /** Metrics in the text form of Prometheus. */
  async metrics(): Promise<string> {
    return (await this.#session.transport.text({ method: "GET", path: ["metrics"] })).text;
  }

  /** Opens an account by the order of its institution, signed with `key`. @throws {RefusedError} */
  async openAccount(account: NewAccount, key: SigningKey): Promise<Schemas["AccountBody"]> {
    return openAccount(this.#session, account, key);
  }

  /** Stops payments from and to an account. @throws {RefusedError} */
  async freezeAccount(account: AccountReference, key: SigningKey): Promise<Schemas["AccountBody"]> {
    return changeAccount(this.#session, account, "freeze", key);
  }

  /** Ends a freeze. @throws {RefusedError} */
  async releaseAccount(account: AccountReference, key: SigningKey): Promise<Schemas["AccountBody"]> {
    return changeAccount(this.#session, account, "release", key);
  }

  /** Closes an empty account for ever. @throws {RefusedError} */
  async closeAccount(account: AccountReference, key: SigningKey): Promise<Schemas["AccountBody"]> {
    return changeAccount(this.#session, account, "close", key);
  }

  /** Sets how far below zero an account may go: zero or negative, a decimal as text. @throws {RefusedError} */
  async setFloor(account: AssetReference, floor: string, key: SigningKey): Promise<Schemas["AccountBody"]> {
    return changeAccount(this.#session, account, { floor }, key);
  }

  /**
   * Pays: has the gateway prepare the payment, checks that it is the one that was asked for, signs it and hands it in.
   * Returns what became of it: settled (`ACSC`), or not decided yet (`PDNG`).
   *
   * @throws {RefusedError} when it is refused
   * @throws {DraftError} when the gateway prepared something else; then nothing was signed
   */
  async pay(payment: Payment, options: PaymentOptions = {}): Promise<Schemas["OutcomeView"]> {
    return pay(this.#session, payment, options);
  }

  /** Pays several, each for itself. Returns for each what became of it, or why the gateway did not prepare it. */
  async payAll(
    payments: readonly Payment[],
    options: PaymentOptions = {},
  ): Promise<(Schemas["OutcomeView"] | RefusedError)[]> {
    return payAll(this.#session, payments, options);
  }

  /** Has the gateway read a payment message of ISO 20022, and prepare its payments. */
  async prepareMessage(xml: string | Uint8Array): Promise<Schemas["PreparedBody"]> {
    return prepareMessage(this.#session, xml);
  }

  /**
   * Sends a payment message of ISO 20022, whose payments its sender describes. Returns the status report (pacs.002 or pain.002) as XML.
   *
   * @throws {DraftError} when the gateway prepared something else; then nothing was signed
   */
  async submitMessage(xml: string | Uint8Array, payments: readonly MessagePayment[]): Promise<string> {
    return submitMessage(this.#session, xml, payments);
  }

  /** Asks for the cancellation of payments: takes a camt.056 and returns a camt.029, both as XML. */
  async cancelMessage(xml: string | Uint8Array): Promise<string> {
    const body = { type: "application/xml", content: xml };
    const path = ["v1", "iso20022", "cancel"];
    return (await this.#session.transport.text({ method: "POST", path, body })).text;
  }

  /** The terms of a transaction that is built here, see {@link newTransaction}: to be decided within a minute. */
  async terms(uetr?: string): Promise<Terms> {
    return this.#session.terms(uetr);
  }

  /** Hands in signed transactions that were built here. Returns what became of each, refusals too. */
  async submit(transactions: readonly Transaction[]): Promise<Schemas["OutcomeView"][]> {
    return this.#session.send("transactions", transactions);
  }

  async #report(bic: string, account: string, name: string, { from, to }: Days): Promise<string> {
    const path = ["v1", "accounts", bic, account, name];
    return (await this.#session.transport.text({ method: "GET", path, query: { from, to } })).text;
  }

  async #get<Name extends keyof Schemas>(
    name: Name,
    path: readonly string[],
    query: NonNullable<Asked["query"]> = {},
    strict = false,
  ): Promise<Schemas[Name]> {
    return this.#session.transport.json(name, { method: "GET", path: ["v1", ...path], query }, strict);
  }
}
