/**
 * Transactions: what is signed, and its id.
 *
 * ```text
 * salt_i = BLAKE3_keyed(SALT, seed (16) ‖ i (1) ‖ 0 (47))[..16]
 * leg_i  = BLAKE3_keyed(LEG, salt_i (16) ‖ participant (2) ‖ asset (2) ‖ account (4) ‖ amount (8) ‖ i (1) ‖ 0 (31))
 * id     = BLAKE3(header (64, signer count as 0) ‖ leg_0 ‖ … ‖ leg_n ‖ 0 … to a multiple of 64)
 * ```
 *
 * Integers are little-endian.
 */

import { domain, hash, keyed } from "./hash.js";
import type { SigningKey } from "./key.js";
import { type AccountOrder, orderHash } from "./order.js";
import { uetrBytes } from "./uetr.js";
import { Writer } from "./wire.js";

/** What a transaction does, by the number that its signed form holds. */
export const KIND = { transfer: 1, issue: 2, redeem: 3, account: 4 } as const;

/** A change of one account. */
export interface Leg {
  /** Position of the institution in the network's configuration. */
  readonly participant: number;
  /** Position of the asset in the network's configuration. */
  readonly asset: number;
  /** The account's number in the institution's books. */
  readonly account: number;
  /** What it gets, in minor units; negative for a debit. */
  readonly amount: bigint;
}

/** A signature over the id. */
export interface Signer {
  /** Public key, 32 bytes. */
  readonly key: Uint8Array;
  /** Ed25519 signature, 64 bytes. */
  readonly signature: Uint8Array;
}

/** What every participant concerned is shown of a transaction. */
export interface Header {
  /** See {@link KIND}. */
  readonly kind: number;
  /** How many institutions have legs in it. */
  readonly participants: number;
  /** The network it is for. */
  readonly network: number;
  /** When it is refused if not decided, in milliseconds since the Unix epoch. */
  readonly expiry: bigint;
  /** End-to-end reference. */
  readonly uetr: string;
  /** Hash of what is kept off the ledger, or of the account order; 32 zeros for none. */
  readonly details: Uint8Array;
}

/** One transaction with everything that belongs to it; not yet checked by anybody. */
export interface Transaction extends Header {
  /** Secret from which the legs' salts are derived, 16 bytes. */
  readonly seed: Uint8Array;
  readonly legs: readonly Leg[];
  readonly signers: readonly Signer[];
  /** The order of a transaction of kind account. */
  readonly order: AccountOrder | null;
}

/** What a client decides of a new transaction. */
export interface Terms {
  readonly network: number;
  readonly uetr: string;
  /** Milliseconds since the Unix epoch. */
  readonly expiry: bigint;
  readonly details: Uint8Array;
  readonly seed: Uint8Array;
}

const SALT_KEY = domain("tallystick 2026 leg salt v1");
const LEG_KEY = domain("tallystick 2026 leg hash v1");

/** The 64 bytes of a header with that many legs and signatures. */
export function encodeHeader(header: Header, legs: number, signers: number): Uint8Array {
  const counts = new Writer().u8(header.kind).u8(legs).u8(header.participants).u8(signers);
  const terms = counts.u32(header.network).u64(header.expiry);
  return terms.exactly(16, uetrBytes(header.uetr)).exactly(32, header.details).finish();
}

/** The 16 bytes of a leg. */
export function encodeLeg(leg: Leg): Uint8Array {
  return new Writer().u16(leg.participant).u16(leg.asset).u32(leg.account).i64(leg.amount).finish();
}

/** The salt of the leg at `position`, 16 bytes. */
export function legSalt(seed: Uint8Array, position: number): Uint8Array {
  return keyed(SALT_KEY, new Writer().exactly(16, seed).u8(position).zeros(47).finish()).slice(0, 16);
}

/** The hash of a leg under its salt. */
export function legHash(salt: Uint8Array, leg: Leg, position: number): Uint8Array {
  const input = new Writer().exactly(16, salt).bytes(encodeLeg(leg)).u8(position).zeros(31);
  return keyed(LEG_KEY, input.finish());
}

/** The id of a transaction with that header and those hashes of legs. */
export function idOf(header: Header, legHashes: readonly Uint8Array[]): Uint8Array {
  const input = new Writer().bytes(encodeHeader(header, legHashes.length, 0));
  for (const leg of legHashes) input.exactly(32, leg);
  return hash(input.pad(64).finish());
}

/** The id, computed from the content. */
export function transactionId(transaction: Transaction): Uint8Array {
  const { seed, legs } = transaction;
  return idOf(
    transaction,
    legs.map((leg, position) => legHash(legSalt(seed, position), leg, position)),
  );
}

/** A transaction that moves, issues or redeems, unsigned yet. */
export function newTransaction(
  kind: (typeof KIND)[Exclude<keyof typeof KIND, "account">],
  terms: Terms,
  legs: readonly Leg[],
): Transaction {
  const participants = new Set(legs.map((leg) => leg.participant)).size;
  return { ...terms, kind, participants, legs, signers: [], order: null };
}

/** The transaction of an account order, unsigned yet; its details are the order's hash. */
export function newOrder(terms: Omit<Terms, "details">, order: AccountOrder): Transaction {
  return {
    ...terms,
    kind: KIND.account,
    participants: 1,
    details: orderHash(order),
    legs: [],
    signers: [],
    order,
  };
}

/** The same with one more signature over its id. */
export function sign(transaction: Transaction, key: SigningKey): Transaction {
  const signature = key.sign(transactionId(transaction));
  return { ...transaction, signers: [...transaction.signers, { key: key.publicKey, signature }] };
}
