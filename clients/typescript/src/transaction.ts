/**
 * Transactions: what is signed, and its id.
 *
 * ```text
 * salt_i = BLAKE3_keyed(SALT, seed (16) ‖ i (1) ‖ 0 (47))[..16]
 * leg_i  = BLAKE3_keyed(LEG, salt_i (16) ‖ participant (2) ‖ asset (2) ‖ account (4) ‖ amount (8) ‖ i (1) ‖ 0 (31))
 * key    = BLAKE3_derive_key("tallystick settlement v2 transaction", network id (32))
 * id     = BLAKE3_keyed(key, header' (64) ‖ [participants (64)] ‖ leg_0 ‖ … ‖ leg_n ‖ 0 … to a multiple of 64)
 * ```
 *
 * `header'` is the header with 0 signers, and with the participants in place of the network's tag: two `u16`, ascending,
 * the second 0xFFFF where there is one participant. Where there are more than two, zeros stand there, and a block of 64
 * bytes follows with all of them as `u16`, ascending, and then 0xFF bytes. So a signature names the whole network, the
 * kind and the set of participants. Integers are little-endian.
 */

import { ArgumentError } from "./errors.js";
import { domain, keyed, networkKey } from "./hash.js";
import { networkIdBytes } from "./hex.js";
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

/** What every participant concerned is shown of a transaction, but for who is concerned. */
export interface Header {
  /** See {@link KIND}. */
  readonly kind: number;
  /** The id of the network it is for: 64 lower-case hexadecimal digits. */
  readonly network: string;
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
  /** The network's id: 64 lower-case hexadecimal digits. */
  readonly network: string;
  readonly uetr: string;
  /** Milliseconds since the Unix epoch. */
  readonly expiry: bigint;
  readonly details: Uint8Array;
  readonly seed: Uint8Array;
}

/** The most participants of one transaction: each has a leg, and there are at most 30. */
export const MAX_PARTICIPANTS = 30;
/** How many participants the header's own bytes hold. */
const IN_HEADER = 2;
const NOBODY = 0xffff;
/** How many of the first bytes of the network's id a transaction is sent with. */
export const TAG_LENGTH = 4;

const idKey = networkKey("tallystick settlement v2 transaction");
const SALT_KEY = domain("tallystick 2026 leg salt v1");
const LEG_KEY = domain("tallystick 2026 leg hash v1");

/** The 64 bytes of a header that are sent. The first four of the network's id tell a foreign transaction early. */
export function encodeHeader(transaction: Transaction): Uint8Array {
  const { kind, legs, signers, network } = transaction;
  const counts = new Writer()
    .u8(kind)
    .u8(legs.length)
    .u8(participantsOf(transaction).length)
    .u8(signers.length);
  const tagged = counts.bytes(networkIdBytes(network).slice(0, TAG_LENGTH));
  return terms(tagged, transaction).finish();
}

/** What the id commits to before the legs: 64 bytes, or 128 where more than two participants are concerned. */
function signedHeader(header: Header, participants: readonly number[], legs: number): Uint8Array {
  const count = participants.length;
  if (count < 1 || count > MAX_PARTICIPANTS) {
    throw new ArgumentError(`a transaction has 1 to ${MAX_PARTICIPANTS} participants, this has ${count}`);
  }
  if (!isAscending(participants)) throw new ArgumentError("participants are not in ascending order");
  const out = new Writer().u8(header.kind).u8(legs).u8(count).u8(0);
  const [first = NOBODY, second = NOBODY] = participants;
  if (count <= IN_HEADER) out.u16(first).u16(second);
  else out.zeros(4);
  terms(out, header);
  if (count > IN_HEADER) {
    for (const participant of participants) out.u16(participant);
    out.bytes(new Uint8Array(64 - 2 * count).fill(0xff));
  }
  return out.finish();
}

function terms(out: Writer, { expiry, uetr, details }: Header): Writer {
  return out.u64(expiry).exactly(16, uetrBytes(uetr)).exactly(32, details);
}

/** Whether each is above the one before it. */
export function isAscending(numbers: readonly number[]): boolean {
  return numbers.every((number, at) => at === 0 || number > (numbers[at - 1] ?? number));
}

/** Who must approve a transaction, ascending: the participants with a leg; for an account order, that of the order. */
export function participantsOf({ legs, order }: Pick<Transaction, "legs" | "order">): number[] {
  if (order !== null) return [order.participant];
  return [...new Set(legs.map(({ participant }) => participant))].sort((one, other) => one - other);
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

/**
 * The id of a transaction with that header, those participants and those hashes of legs.
 *
 * @param participants ascending, 1 to 30
 */
export function idOf(
  header: Header,
  participants: readonly number[],
  legHashes: readonly Uint8Array[],
): Uint8Array {
  const input = new Writer().bytes(signedHeader(header, participants, legHashes.length));
  for (const leg of legHashes) input.exactly(32, leg);
  return keyed(idKey(header.network), input.pad(64).finish());
}

/** The id, computed from the content: what is signed. */
export function transactionId(transaction: Transaction): Uint8Array {
  const { seed, legs } = transaction;
  return idOf(
    transaction,
    participantsOf(transaction),
    legs.map((leg, position) => legHash(legSalt(seed, position), leg, position)),
  );
}

/** A transaction that moves, issues or redeems, unsigned yet. */
export function newTransaction(
  kind: (typeof KIND)[Exclude<keyof typeof KIND, "account">],
  terms: Terms,
  legs: readonly Leg[],
): Transaction {
  return { ...terms, kind, legs, signers: [], order: null };
}

/** The transaction of an account order, unsigned yet; its details are the order's hash. */
export function newOrder(terms: Omit<Terms, "details">, order: AccountOrder): Transaction {
  return {
    ...terms,
    kind: KIND.account,
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
