/** Account orders: how an institution opens, freezes and closes accounts in its books. */

import { ArgumentError } from "./errors.js";
import { hash } from "./hash.js";
import { Reader, Writer } from "./wire.js";

/** The longest alias in bytes. */
export const MAX_ALIAS_BYTES = 128;

/** What is done. */
export type AccountAction =
  | {
      /** Opens accounts with consecutive numbers, the first of which must be the next free one. */
      readonly action: "open";
      /** How many; an alias needs exactly one. */
      readonly count: number;
      /** Position of the asset in the network's configuration. */
      readonly asset: number;
      /** Public key whose signature debits them, 32 bytes. */
      readonly owner: Uint8Array;
      /** How far below zero they may go, in minor units: zero or negative. */
      readonly floor: bigint;
      /** IBAN or another name by which payments find it; empty for none. */
      readonly alias: string;
    }
  | { readonly action: "freeze" | "release" | "close" }
  | {
      readonly action: "set-floor";
      /** How far below zero it may go, in minor units: zero or negative. */
      readonly floor: bigint;
    };

/** An order for accounts of one institution. */
export type AccountOrder = {
  /** Position of the institution in the network's configuration. */
  readonly participant: number;
  /** The account's number, or the first of a range. */
  readonly number: number;
} & AccountAction;

const VERSION = 1;
const CODES = { open: 1, freeze: 2, release: 3, close: 4, "set-floor": 5 } as const;

/** The canonical form. */
export function encodeOrder(order: AccountOrder): Uint8Array {
  const out = new Writer().u8(VERSION).u16(order.participant).u32(order.number).u8(CODES[order.action]);
  if (order.action === "open") {
    const alias = new TextEncoder().encode(order.alias);
    if (alias.length > MAX_ALIAS_BYTES) {
      throw new ArgumentError(`an alias has at most ${MAX_ALIAS_BYTES} bytes, this one ${alias.length}`);
    }
    out.u32(order.count).u16(order.asset).exactly(32, order.owner).i64(order.floor);
    out.u32(alias.length).bytes(alias);
  } else if (order.action === "set-floor") {
    out.i64(order.floor);
  }
  return out.finish();
}

/** Reads the canonical form. */
export function decodeOrder(reader: Reader): AccountOrder {
  reader.version(VERSION);
  const [participant, number, code] = [reader.u16(), reader.u32(), reader.u8()];
  switch (code) {
    case CODES.open: {
      const [count, asset, owner, floor] = [reader.u32(), reader.u16(), reader.take(32), reader.i64()];
      const bytes = reader.take(reader.count(MAX_ALIAS_BYTES));
      let alias: string;
      try {
        alias = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
      } catch {
        throw reader.error("an alias is not UTF-8");
      }
      return { participant, number, action: "open", count, asset, owner, floor, alias };
    }
    case CODES.freeze:
      return { participant, number, action: "freeze" };
    case CODES.release:
      return { participant, number, action: "release" };
    case CODES.close:
      return { participant, number, action: "close" };
    case CODES["set-floor"]:
      return { participant, number, action: "set-floor", floor: reader.i64() };
    default:
      throw reader.error("the action is unknown");
  }
}

/** The hash to which the transaction's header commits. */
export function orderHash(order: AccountOrder): Uint8Array {
  return hash(encodeOrder(order));
}
