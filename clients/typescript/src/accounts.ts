/** Accounts opened, frozen, released, closed and limited by their institution's order. */

import { accountRole } from "./account.js";
import { parseAmount } from "./amount.js";
import { AnswerError, ArgumentError } from "./errors.js";
import { toHex } from "./hex.js";
import { publicKey, SigningKey } from "./key.js";
import type { Network } from "./network.js";
import type { AccountAction, AccountOrder } from "./order.js";
import type { Schemas } from "./schema.js";
import { type Session, unlessRefused } from "./session.js";
import { newOrder, sign } from "./transaction.js";

/** An account that is there. */
export interface AccountReference {
  /** BIC. */
  readonly institution: string;
  /** IBAN or other alias, number, or role such as `own:EUR`. Which account an alias means is the gateway's word. */
  readonly account: string;
  /** Its number in the institution's books, where it is known from elsewhere: then the gateway cannot name another. */
  readonly number?: number;
}

/** An account whose floor is set. The order has minor units alone, of which other assets have more or fewer. */
export interface AssetReference extends AccountReference {
  /** Code of the asset that it holds; without it the gateway's word is taken for it. */
  readonly asset?: string;
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
  /** How far below zero it may go: zero or negative, a decimal as text such as `"-100.00"`; zero without it. */
  readonly floor?: string;
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
  const floor = floorOf(account.floor ?? "0", exponent);
  const participant = network.participant(institution);
  const open = { action: "open", count: 1, asset, owner: ownerKey(account.owner), floor, alias } as const;
  let refused: unknown;
  for (let attempt = 0; attempt < OVERTAKEN; attempt++) {
    // Orders name the number that they take: of two made at the same time one comes too late.
    const path = ["v1", "accounts", institution] as const;
    const { next_account: number } = await session.transport.json("BooksView", { method: "GET", path });
    try {
      await order(session, { participant, number, ...open }, key);
      return mustBe(await session.account(institution, alias), number, account);
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
  reference: AssetReference,
  action: "freeze" | "release" | "close" | { readonly floor: string },
  key: SigningKey,
): Promise<Schemas["AccountBody"]> {
  const { institution, account } = reference;
  const network = await session.network();
  const number =
    reference.number ??
    network.accountNumber(account) ??
    (await session.aliased(institution, account)).number;
  let change: AccountAction;
  if (typeof action === "string") {
    change = { action };
  } else {
    const asset = await assetOf(session, network, reference, number);
    change = { action: "set-floor", floor: floorOf(action.floor, network.asset(asset).exponent) };
  }
  await order(session, { participant: network.participant(institution), number, ...change }, key);
  return session.account(institution, account);
}

/** The asset of an account by the gateway's word, which must be the one that is known. */
async function assetOf(
  session: Session,
  network: Network,
  { institution, account, asset }: AssetReference,
  number: number,
): Promise<string> {
  const told = (await session.account(institution, account)).asset;
  const role = accountRole(number);
  const own = role.role === "customer" ? undefined : network.configuration.assets[role.asset]?.code;
  for (const known of [asset, own]) {
    if (known !== undefined && known !== told) {
      throw new AnswerError(
        `the gateway says that ${institution}/${account} holds ${told}, and not ${known}`,
      );
    }
  }
  return told;
}

/** The account that was opened, which is the one that was ordered: payments are made to what is returned here. */
function mustBe(
  opened: Schemas["AccountBody"],
  number: number,
  { institution, alias, asset, owner }: NewAccount,
): Schemas["AccountBody"] {
  const isIt = opened.number === number && opened.asset === asset;
  if (!isIt || opened.owner.toLowerCase() !== toHex(ownerKey(owner))) {
    throw new AnswerError(
      `the gateway shows another account as ${institution}/${alias} than number ${number}, which was opened`,
    );
  }
  return opened;
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

function floorOf(floor: string, exponent: number): bigint {
  const minorUnits = parseAmount(floor, exponent);
  if (minorUnits > 0n)
    throw new ArgumentError("a floor is zero or negative: how far below zero an account may go");
  return minorUnits;
}

function ownerKey(owner: NewAccount["owner"]): Uint8Array {
  if (owner instanceof SigningKey) return owner.publicKey;
  return typeof owner === "string" ? publicKey(owner) : owner;
}
