/** What the parts of the client share: the way to the gateway, and the network that it must speak for. */

import { isCustomers } from "./account.js";
import { AnswerError, NetworkMismatchError, RefusedError } from "./errors.js";
import { fromHex, sameBytes, toHex } from "./hex.js";
import { Network } from "./network.js";
import type { Keys } from "./proof/keys.js";
import type { Schemas } from "./schema.js";
import { encodeBatch } from "./batch.js";
import { type Terms, type Transaction, transactionId } from "./transaction.js";
import { newUetr } from "./uetr.js";
import type { Transport } from "./transport.js";
import { randomBytes } from "node:crypto";

/** How long a transaction that is made here may be decided, in milliseconds. */
const VALIDITY_MS = 60_000n;

/** The state of a client. */
export class Session {
  #known: Network | null;

  constructor(
    readonly transport: Transport,
    pinned: Network | null,
    readonly keys: Keys | null,
  ) {
    this.#known = pinned;
  }

  /** The network as it is now. @throws {NetworkMismatchError} when it is not the one that was pinned or seen before */
  async view(): Promise<{ view: Schemas["NetworkView"]; network: Network }> {
    const view = await this.transport.json("NetworkView", { method: "GET", path: ["v1", "network"] });
    const network = new Network(view.network);
    this.#known?.mustContinueAs(network);
    if (this.keys !== null) mustHave(network, this.keys);
    this.#known = network;
    return { view, network };
  }

  /** The network that was pinned or seen before; asks the gateway only where neither is. */
  async network(): Promise<Network> {
    return this.#known ?? (await this.view()).network;
  }

  /** The terms of a new transaction that has to be decided within a minute. */
  async terms(uetr: string = newUetr()): Promise<Terms> {
    const network = await this.network();
    // The clock of the scheduler may be behind this one: a tenth is left for it.
    const longest = network.longestValidityMs - network.longestValidityMs / 10n;
    const validity = longest < VALIDITY_MS ? longest : VALIDITY_MS;
    return {
      network: network.id,
      uetr,
      expiry: BigInt(Date.now()) + validity,
      details: new Uint8Array(32),
      seed: Uint8Array.from(randomBytes(16)),
    };
  }

  /** An account's state. */
  async account(bic: string, account: string): Promise<Schemas["AccountBody"]> {
    return this.transport.json("AccountBody", { method: "GET", path: ["v1", "accounts", bic, account] });
  }

  /**
   * An account's state by an alias, whose number is the gateway's word.
   *
   * @throws {AnswerError} when it is an institution's own account, which has no alias
   */
  async aliased(bic: string, alias: string): Promise<Schemas["AccountBody"]> {
    const state = await this.account(bic, alias);
    if (!isCustomers(state.number)) {
      throw new AnswerError(
        `the gateway says that ${bic}/${alias} is an institution's own account, ${state.number}`,
      );
    }
    return state;
  }

  /** Hands transactions in and returns what became of each. */
  async send(
    path: "accounts" | "transactions",
    transactions: readonly Transaction[],
  ): Promise<Schemas["OutcomeView"][]> {
    const body = { type: "text/plain", content: toHex(encodeBatch(transactions)) };
    const answer = await this.transport.json("OutcomesBody", { method: "POST", path: ["v1", path], body });
    const ids = transactions.map((transaction) => toHex(transactionId(transaction)));
    const fit =
      answer.outcomes.length === ids.length && answer.outcomes.every(({ id }, at) => id === ids[at]);
    if (!fit)
      throw new AnswerError("the gateway tells the outcomes of other transactions than were handed in");
    return answer.outcomes;
  }
}

/** The outcome, unless it is a refusal. @throws {RefusedError} when it is one */
export function unlessRefused(outcome: Schemas["OutcomeView"]): Schemas["OutcomeView"] {
  if (outcome.status !== "RJCT") return outcome;
  const { code = "NARR", text = "no reason is given" } = outcome.reason ?? {};
  throw new RefusedError(code, text, outcome.uetr);
}

function mustHave(network: Network, keys: Keys): void {
  if (network.id !== keys.network) {
    throw new NetworkMismatchError(
      `the keys are of another network than ${network.id}, which the gateway speaks for`,
    );
  }
  const { participants } = network.configuration;
  for (const { participant, bic, key } of keys.institutions) {
    const found = participants[participant];
    if (found?.bic !== bic || !sameBytes(fromHex(found.key, "a key"), key)) {
      throw new NetworkMismatchError(`participant ${participant} is not ${bic} with the key that was given`);
    }
  }
}
