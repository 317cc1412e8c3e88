/** Accounts opened, frozen, released, closed and limited by their institution's order. */

import { parseAmount } from "./amount.js";
import { ArgumentError } from "./errors.js";
import { publicKey, SigningKey } from "./key.js";
import type { AccountAction, AccountOrder } from "./order.js";
import type { Schemas } from "./schema.js";
import { type Session, unlessRefused } from "./session.js";
import { newOrder, sign } from "./transaction.js";

/** An account that is there. */
export interface AccountReference {
  /** BIC. */
  readonly institution: string;
  /** IBAN or other alias, number, or role such as `own:EUR`. */
  readonly account: string;
}

/** An account to be opened. */
export interface NewAccount {
  /** BIC. */
  readonly institution: string;
  /** IBAN or other name by which payments find it: 1 to 128 bytes. */
  readonly alias: string;
  /** Code of the asset that it holds. */
  readonly asset: string;
  /** Whose signature debits it: a public key as bytes or in hexadecimal, or that of a key that is at hand. */
  readonly owner: Uint8Array | string | SigningKey;
  /** How far below zero it may go: zero or negative, in minor units or as a decimal; zero without it. */
  readonly floor?: bigint | string;
}

/** How often an order to open an account may be overtaken by another before it is given up. */
const OVERTAKEN = 50;
/** ISO 20022 code of an order that does not fit the account's state. */
const NOT_POSSIBLE = "AG01";

/** Opens an account by the order of its institution, signed with `key`, and returns it. */
export async function openAccount(
  session: Session,
  account: NewAccount,
  key: SigningKey,
): Promise<Schemas["AccountBody"]> {
  const { institution, alias } = account;
  if (!/^[^\s\p{Cc}]+$/u.test(alias))
    throw new ArgumentError(`'${alias}' cannot be an alias: it has a space or nothing`);
  const network = await session.network();
  const { id: asset, exponent } = network.asset(account.asset);
  const floor = floorOf(account.floor ?? 0n, exponent);
  const participant = network.participant(institution);
  const open = { action: "open", count: 1, asset, owner: ownerKey(account.owner), floor, alias } as const;
  let refused: unknown;
  for (let attempt = 0; attempt < OVERTAKEN; attempt++) {
    // Orders name the number that they take: of two made at the same time one comes too late.
    const path = ["v1", "accounts", institution] as const;
    const { next_account: number } = await session.transport.json("BooksView", { method: "GET", path });
    try {
      await order(session, { participant, number, ...open }, key);
      return await session.account(institution, alias);
    } catch (error) {
      refused = error;
      const isLate = (error as { code?: unknown }).code === NOT_POSSIBLE;
      const next = isLate ? await session.transport.json("BooksView", { method: "GET", path }) : null;
      if (next === null || next.next_account === number) throw error;
    }
  }
  throw refused;
}

/** Changes an account by the order of its institution, signed with `key`, and returns it. */
export async function changeAccount(
  session: Session,
  { institution, account }: AccountReference,
  action: "freeze" | "release" | "close" | { readonly floor: bigint | string },
  key: SigningKey,
): Promise<Schemas["AccountBody"]> {
  const network = await session.network();
  const { number, asset } = await session.account(institution, account);
  const change: AccountAction =
    typeof action === "string"
      ? { action }
      : { action: "set-floor", floor: floorOf(action.floor, network.asset(asset).exponent) };
  await order(session, { participant: network.participant(institution), number, ...change }, key);
  return session.account(institution, account);
}

async function order(
  session: Session,
  order: AccountOrder,
  key: SigningKey,
): Promise<Schemas["OutcomeView"]> {
  const [outcome] = await session.send("accounts", [sign(newOrder(await session.terms(), order), key)]);
  if (outcome === undefined) throw new ArgumentError("no order was given");
  return unlessRefused(outcome);
}

function floorOf(floor: bigint | string, exponent: number): bigint {
  const minorUnits = typeof floor === "bigint" ? floor : parseAmount(floor, exponent);
  if (minorUnits > 0n)
    throw new ArgumentError("a floor is zero or negative: how far below zero an account may go");
  return minorUnits;
}

function ownerKey(owner: NewAccount["owner"]): Uint8Array {
  if (owner instanceof SigningKey) return owner.publicKey;
  return typeof owner === "string" ? publicKey(owner) : owner;
}
