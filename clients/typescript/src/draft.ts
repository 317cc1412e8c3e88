/** Drafts: what a gateway prepared, checked before it is signed. */

import { isCustomers } from "./account.js";
import { decodeOne } from "./batch.js";
import { DraftError, ForeignTransactionError } from "./errors.js";
import { sameBytes, toHex } from "./hex.js";
import type { AccountId, Network } from "./network.js";
import type { Schemas } from "./schema.js";
import {
  KIND,
  type Leg,
  MAX_PARTICIPANTS,
  participantsOf,
  type Transaction,
  transactionId,
} from "./transaction.js";

/** An account as a payment names it: its number where that is known, else some customer's at that institution. */
export interface NamedAccount {
  readonly participant: number;
  /** `null` where only an alias is known, which the gateway resolved: institutions' own accounts have none. */
  readonly number: number | null;
}

/** How far the gateway's clock may be ahead of this one. */
const CLOCK_SKEW_MS = 60_000n;

/** What a draft has to be. */
export interface Wanted {
  readonly from: NamedAccount;
  readonly to: NamedAccount;
  /** Minor units. */
  readonly amount: bigint;
  /** Code of the asset. */
  readonly asset: string;
  readonly uetr: string;
  /** Hash of what is kept off the ledger, 32 bytes; `null` where it is the gateway's to compute. */
  readonly details: Uint8Array | null;
  /** Public keys of those who may be asked to sign. */
  readonly signers: readonly Uint8Array[];
}

/**
 * The transaction of a draft, if it makes the payment that is wanted and nothing else: it is for this network and that
 * reference, debits the payer's account alone by exactly the amount, credits the creditor's alone, moves reserves between
 * their institutions and nothing else, expires when the network allows it, and its id is what it says.
 *
 * @param nowMs milliseconds since the Unix epoch
 * @throws {DraftError} when it does not; then it must not be signed
 */
export function checkDraft(
  network: Network,
  draft: Schemas["Draft"],
  wanted: Wanted,
  nowMs = Date.now(),
): Transaction {
  const transaction = read(draft, network);
  const fault = headerFault(transaction, draft, wanted);
  if (fault !== null) throw fault;
  if (transaction.expiry > BigInt(nowMs) + network.longestValidityMs + CLOCK_SKEW_MS) {
    throw new DraftError("expiry", "it expires later than the network allows");
  }
  const { legs } = transaction;
  const [first, last] = [legs[0], legs[legs.length - 1]];
  if (first === undefined || last === undefined) throw new DraftError("legs", "it has no legs");
  const [from, to] = [accountOf(first), accountOf(last)];
  if (!fits(wanted.from, from)) throw new DraftError("debtor", "it debits another account than the payer's");
  if (!fits(wanted.to, to))
    throw new DraftError("creditor", "it credits another account than the creditor's");
  const path = network.paymentLegs(from, to, wanted.asset, wanted.amount);
  if (legs.length !== path.length || !legs.every((leg, at) => sameLeg(leg, path[at]))) {
    throw new DraftError(
      "legs",
      `its legs do not move ${wanted.amount} minor units of ${wanted.asset} and nothing else`,
    );
  }
  const asked = (signer: string) => wanted.signers.some((key) => toHex(key) === signer.toLowerCase());
  const stranger = draft.signers.find((signer) => !asked(signer));
  if (stranger !== undefined || draft.signers.length === 0) {
    throw new DraftError("signers", `it wants the signature of ${stranger ?? "nobody"}`);
  }
  return transaction;
}

function read(draft: Schemas["Draft"], network: Network): Transaction {
  try {
    return decodeOne(draft.transaction, network.id);
  } catch (cause) {
    if (cause instanceof ForeignTransactionError) {
      throw new DraftError("network", "it is for another network", { cause });
    }
    throw new DraftError("form", "it cannot be read", { cause });
  }
}

function headerFault(
  transaction: Transaction,
  draft: Schemas["Draft"],
  { uetr, details }: Wanted,
): DraftError | null {
  if (transaction.kind !== KIND.transfer) return new DraftError("kind", "it is not a transfer");
  if (transaction.uetr !== uetr.toLowerCase()) return new DraftError("uetr", "it has another reference");
  if (details !== null && !sameBytes(transaction.details, details)) {
    return new DraftError("details", "it commits to other details");
  }
  if (transaction.signers.length > 0) return new DraftError("form", "it is signed already");
  const { length } = participantsOf(transaction);
  if (length === 0 || length > MAX_PARTICIPANTS) {
    return new DraftError("form", `it has ${length} participants`);
  }
  if (toHex(transactionId(transaction)) !== draft.id.toLowerCase()) {
    return new DraftError("id", "its id is not that of its content");
  }
  return null;
}

function accountOf({ participant, account }: Leg): AccountId {
  return { participant, number: account };
}

function fits(wanted: NamedAccount, found: AccountId): boolean {
  const isIt = wanted.number === null ? isCustomers(found.number) : wanted.number === found.number;
  return wanted.participant === found.participant && isIt;
}

function sameLeg(one: Leg, other: Leg | undefined): boolean {
  return (
    other !== undefined &&
    one.participant === other.participant &&
    one.asset === other.asset &&
    one.account === other.account &&
    one.amount === other.amount
  );
}
