/** Accounts: their numbers, what each is for, and the names by which they are asked for. */

import type { Network } from "./network.js";

/** What an account is for. */
export type AccountRole =
  | { readonly role: "customer" }
  /** The counter-account of what the institution issued. */
  | { readonly role: "issuance"; readonly asset: number }
  /** The institution's own funds. */
  | { readonly role: "own"; readonly asset: number }
  /** The account that a participant holds at the asset's settlement institution. */
  | { readonly role: "settlement"; readonly asset: number; readonly holder: number };

/** The top bit: an institution's own account, `1 | asset (15 bits) | slot (16 bits)`. */
const INSTITUTION = 2 ** 31;

function institution(asset: number, slot: number): number {
  return INSTITUTION + asset * 2 ** 16 + slot;
}

/** The number of the account against which an institution issues the asset. */
export function issuanceAccount(asset: number): number {
  return institution(asset, 0);
}

/** The number of an institution's own funds in the asset. */
export function ownAccount(asset: number): number {
  return institution(asset, 1);
}

/** The number of the account that a participant holds at the asset's settlement institution. */
export function settlementAccount(asset: number, holder: number): number {
  return institution(asset, holder + 2);
}

/** Whether the account of that number is a customer's. */
export function isCustomers(number: number): boolean {
  return number < INSTITUTION;
}

/** What the account of that number is for. */
export function accountRole(number: number): AccountRole {
  if (isCustomers(number)) return { role: "customer" };
  const asset = Math.floor((number - INSTITUTION) / 2 ** 16);
  const slot = number % 2 ** 16;
  if (slot === 0) return { role: "issuance", asset };
  if (slot === 1) return { role: "own", asset };
  return { role: "settlement", asset, holder: slot - 2 };
}

/**
 * The number that a name means without asking for aliases: a number, or an institution's own account as `own:EUR`,
 * `issuance:EUR` or `settlement:EUR:BIC`; `null` for an alias.
 */
export function accountNumber(network: Network, name: string): number | null {
  if (/^[0-9]+$/.test(name)) {
    const number = Number(name);
    return number < 2 ** 32 ? number : null;
  }
  const [role, code, bic, ...rest] = name.split(":");
  const asset = code === undefined ? null : network.assetId(code);
  if (asset === null || rest.length > 0) return null;
  if (role === "own" && bic === undefined) return ownAccount(asset);
  if (role === "issuance" && bic === undefined) return issuanceAccount(asset);
  if (role === "settlement" && bic !== undefined) {
    const holder = network.participantId(bic);
    return holder === null ? null : settlementAccount(asset, holder);
  }
  return null;
}
