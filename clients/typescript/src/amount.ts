/** Amounts: whole numbers of minor units, and their decimal texts. */

import { ArgumentError } from "./errors.js";

/** The largest amount of one leg: 18 digits (ISO 20022, `ActiveCurrencyAndAmount`). */
export const MAX_AMOUNT = 999_999_999_999_999_999n;

/**
 * Reads a decimal such as `1234.5` exactly, as minor units of an asset with `exponent` decimals.
 *
 * @throws {ArgumentError} when the text is no plain decimal number, has more decimals than the asset or more than 18 digits
 */
export function parseAmount(text: string, exponent: number): bigint {
  const refuse = (why: string) => new ArgumentError(`'${text.slice(0, 40)}' is not an amount: ${why}`);
  const parts = /^(-?)([0-9]+)(?:\.([0-9]*))?$/.exec(text);
  if (parts === null) throw refuse("a decimal number such as 1234.50 is wanted");
  const [, sign = "", whole = "", decimals = ""] = parts;
  const fraction = decimals.replace(/0+$/, "");
  if (fraction.length > exponent) throw refuse("it has more decimals than the asset");
  const digits = (whole + fraction.padEnd(exponent, "0")).replace(/^0+(?=.)/, "");
  if (digits.length > 18) throw refuse("it has more than 18 digits");
  return sign === "-" ? -BigInt(digits) : BigInt(digits);
}

/** Writes minor units with `exponent` decimals: `formatAmount(12345n, 2)` is `123.45`. */
export function formatAmount(minorUnits: bigint, exponent: number): string {
  const sign = minorUnits < 0n ? "-" : "";
  const digits = (minorUnits < 0n ? -minorUnits : minorUnits).toString().padStart(exponent + 1, "0");
  const whole = digits.slice(0, digits.length - exponent);
  return exponent === 0 ? sign + whole : `${sign}${whole}.${digits.slice(digits.length - exponent)}`;
}
