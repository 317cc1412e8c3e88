/** Amounts: whole numbers of minor units, and their decimal texts. */

import { ArgumentError } from "./errors.js";

/** The largest amount of one leg: 18 digits (ISO 20022, `ActiveCurrencyAndAmount`). */
export const MAX_AMOUNT = 999_999_999_999_999_999n;

/**
 * Reads a decimal such as `1234.5` exactly, as minor units of an asset with `exponent` decimals.
 *
 * Amounts are text alone: `12n` could be minor units or whole ones, and a `number` cannot hold most decimals.
 *
 * @throws {ArgumentError} when the text is no plain decimal number, has more decimals than the asset or more than 18 digits
 * @throws {TypeError} when it is no text, with what to write instead
 */
export function parseAmount(text: string, exponent: number): bigint {
  mustBeText(text, exponent);
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

/** Programs without types can hand over anything. */
function mustBeText(amount: unknown, exponent: number): void {
  if (typeof amount === "string") return;
  if (typeof amount === "bigint" || Number.isSafeInteger(amount)) {
    const number = BigInt(amount as bigint | number);
    const written = typeof amount === "bigint" ? `${number}n` : `${number}`;
    const readings = [...new Set([`"${number}"`, `"${formatAmount(number, exponent)}"`])];
    throw new TypeError(
      `an amount is a decimal as text: instead of ${written} write ${readings.join(" or ")}`,
    );
  }
  const what = typeof amount === "number" ? `the number ${amount}` : `a value of type ${typeof amount}`;
  throw new TypeError(`an amount is a decimal as text, such as "12.34", and this is ${what}`);
}

/** Writes minor units with `exponent` decimals: `formatAmount(12345n, 2)` is `123.45`. */
export function formatAmount(minorUnits: bigint, exponent: number): string {
  const sign = minorUnits < 0n ? "-" : "";
  const digits = (minorUnits < 0n ? -minorUnits : minorUnits).toString().padStart(exponent + 1, "0");
  const whole = digits.slice(0, digits.length - exponent);
  return exponent === 0 ? sign + whole : `${sign}${whole}.${digits.slice(digits.length - exponent)}`;
}
