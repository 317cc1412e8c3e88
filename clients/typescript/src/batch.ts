/** Batches: transactions as columns, the form in which they are sent. */

import { ArgumentError, ForeignTransactionError } from "./errors.js";
import { fromHex, networkIdBytes, sameBytes, toHex } from "./hex.js";
import { decodeOrder, encodeOrder } from "./order.js";
import {
  encodeHeader,
  encodeLeg,
  KIND,
  type Leg,
  participantsOf,
  type Signer,
  TAG_LENGTH,
  type Transaction,
} from "./transaction.js";
import { uetrText } from "./uetr.js";
import { Reader, Writer } from "./wire.js";

/** The most transactions of one batch. */
export const MAX_BATCH = 1 << 16;
const VERSION = 1;

/** The canonical form: counts, then headers, seeds, legs, signatures and orders. */
export function encodeBatch(transactions: readonly Transaction[]): Uint8Array {
  if (transactions.length > MAX_BATCH) {
    throw new ArgumentError(`a batch has at most ${MAX_BATCH} transactions, this has ${transactions.length}`);
  }
  const all = <T>(of: (transaction: Transaction) => readonly T[]): T[] => transactions.flatMap(of);
  const orders = all(({ kind, legs, order }) => {
    if ((kind === KIND.account) !== (order !== null)) {
      throw new ArgumentError("account orders have an order, and nothing else has one");
    }
    if (order !== null && legs.length > 0) throw new ArgumentError("account orders have no legs");
    return order === null ? [] : [order];
  });
  const [legs, signers] = [all(({ legs }) => legs), all(({ signers }) => signers)];
  const out = new Writer().u8(VERSION);
  out.u32(transactions.length).u32(legs.length).u32(signers.length).u32(orders.length);
  for (const transaction of transactions) {
    out.bytes(encodeHeader(transaction));
  }
  for (const { seed } of transactions) out.exactly(16, seed);
  for (const leg of legs) out.bytes(encodeLeg(leg));
  for (const { key, signature } of signers) out.exactly(32, key).exactly(64, signature);
  for (const order of orders) out.bytes(encodeOrder(order));
  return out.finish();
}

/**
 * Reads the canonical form; nothing may follow it.
 *
 * @param network the id of the network for which they are taken: a batch has only the first four bytes of it
 * @throws {ForeignTransactionError} when one of them is for another network
 * @throws {DecodeError} when the bytes are something else
 */
export function decodeBatch(bytes: Uint8Array, network: string): Transaction[] {
  const tag = networkIdBytes(network).slice(0, TAG_LENGTH);
  const reader = new Reader("transaction batch", bytes);
  reader.version(VERSION);
  const most = [MAX_BATCH, MAX_BATCH * 255, MAX_BATCH * 255, MAX_BATCH] as const;
  const [count, legCount, signerCount, orderCount] = most.map((limit) => reader.count(limit));
  const headers = times(count, () => readHeader(reader));
  const seeds = times(count, () => reader.take(16));
  const legs = times(legCount, () => readLeg(reader));
  const signers = times(signerCount, (): Signer => ({ key: reader.take(32), signature: reader.take(64) }));
  const orders = times(orderCount, () => decodeOrder(reader));
  const counted = (of: (header: ReadHeader) => number) => headers.reduce((sum, each) => sum + of(each), 0);
  const isOrder = ({ kind }: ReadHeader) => (kind === KIND.account ? 1 : 0);
  if (
    counted(({ legs }) => legs) !== legs.length ||
    counted(({ signers }) => signers) !== signers.length ||
    counted(isOrder) !== orders.length
  ) {
    throw reader.error("the headers' counts disagree with the columns");
  }
  reader.end();
  let [leg, signer, order] = [0, 0, 0];
  return headers.map((header, at) => {
    const { legs: legCount, signers: signerCount, participants, tag: itsTag, ...terms } = header;
    if (!sameBytes(itsTag, tag)) {
      const problem = `transaction ${at} is for another network than ${network}: its tag is ${toHex(itsTag)}`;
      throw new ForeignTransactionError("transaction batch", problem, "its header");
    }
    const transaction = {
      ...terms,
      network,
      seed: seeds[at] ?? new Uint8Array(16),
      legs: legs.slice(leg, leg + legCount),
      signers: signers.slice(signer, signer + signerCount),
      order: isOrder(header) === 1 ? (orders[order] ?? null) : null,
    };
    [leg, signer, order] = [leg + legCount, signer + signerCount, order + isOrder(header)];
    if (transaction.order !== null && legCount > 0) throw reader.error("an account order has legs");
    const { length } = participantsOf(transaction);
    if (participants !== length) {
      throw reader.error(`a header counts ${participants} participants, and its transaction has ${length}`);
    }
    return transaction;
  });
}

/** One transaction as a batch of one, in hexadecimal. */
export function encodeOne(transaction: Transaction): string {
  return toHex(encodeBatch([transaction]));
}

/** Reads what {@link encodeOne} writes, as {@link decodeBatch} does. */
export function decodeOne(text: string, network: string): Transaction {
  const transactions = decodeBatch(fromHex(text, "transaction batch"), network);
  const [transaction] = transactions;
  if (transaction === undefined || transactions.length !== 1) {
    throw new ArgumentError(`a batch of one transaction is wanted, this has ${transactions.length}`);
  }
  return transaction;
}

function times<T>(count: number | undefined, make: () => T): T[] {
  const out: T[] = [];
  for (let at = 0; at < (count ?? 0); at++) out.push(make());
  return out;
}

type ReadHeader = ReturnType<typeof readHeader>;

function readHeader(reader: Reader) {
  const [kind, legs, participants, signers] = [reader.u8(), reader.u8(), reader.u8(), reader.u8()];
  const [tag, expiry] = [reader.take(TAG_LENGTH), reader.u64()];
  const [uetr, details] = [uetrText(reader.take(16)), reader.take(32)];
  return { kind, legs, participants, signers, tag, expiry, uetr, details };
}

function readLeg(reader: Reader): Leg {
  const [participant, asset, account] = [reader.u16(), reader.u16(), reader.u32()];
  return { participant, asset, account, amount: reader.i64() };
}
