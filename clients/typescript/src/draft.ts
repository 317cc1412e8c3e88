/** Drafts: what a gateway prepared, checked before it is signed. */

import { decodeOne } from "./batch.js";
import { DraftError } from "./errors.js";
import { sameBytes, toHex } from "./hex.js";
import type { AccountId, Network } from "./network.js";
import type { Schemas } from "./schema.js";
import { KIND, type Leg, type Transaction, transactionId } from "./transaction.js";

/** An account as a payment names it: its number where that is known, else whatever the institution has. */
export interface NamedAccount {
  readonly participant: number;
  /** `null` where only an alias is known, which the gateway resolved. */
  readonly number: number | null;
}

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
 * their institutions and nothing else, and its id is what it says.
 *
 * @throws {DraftError} when it does not; then it must not be signed
 */
export function checkDraft(network: Network, draft: Schemas["Draft"], wanted: Wanted): Transaction {
  const transaction = read(draft);
  const fault = headerFault(network, transaction, draft, wanted);
  if (fault !== null) throw fault;
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

function read(draft: Schemas["Draft"]): Transaction {
  try {
    return decodeOne(draft.transaction);
  } catch (cause) {
    throw new DraftError("form", "it cannot be read", { cause });
  }
}

function headerFault(
  network: Network,
  transaction: Transaction,
  draft: Schemas["Draft"],
  { uetr, details }: Wanted,
): DraftError | null {
  if (transaction.kind !== KIND.transfer) return new DraftError("kind", "it is not a transfer");
  if (transaction.network !== network.id) return new DraftError("network", "it is for another network");
  if (transaction.uetr !== uetr.toLowerCase()) return new DraftError("uetr", "it has another reference");
  if (details !== null && !sameBytes(transaction.details, details)) {
    return new DraftError("details", "it commits to other details");
  }
  const participants = new Set(transaction.legs.map((leg) => leg.participant)).size;
  if (transaction.participants !== participants || transaction.signers.length > 0) {
    return new DraftError("form", "its header does not fit its content");
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
  return (
    wanted.participant === found.participant && (wanted.number === null || wanted.number === found.number)
  );
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
