/** Verdicts: 0 for yes, else the number of a refusal, which never changes its meaning. */

/** Why a transaction was refused. */
export interface Refusal {
  /** What logs and proofs hold. */
  readonly number: number;
  /** ISO 20022 external status reason code. */
  readonly code: string;
  readonly name: string;
}

const REFUSALS: readonly (readonly [number, string, string])[] = [
  [1, "FF01", "malformed"],
  [2, "FF01", "too few legs"],
  [3, "FF01", "too many legs"],
  [4, "FF01", "wrong network"],
  [5, "RC01", "unknown participant"],
  [6, "AM03", "unknown asset"],
  [7, "AM01", "zero amount"],
  [8, "AM12", "amount out of range"],
  [9, "AM09", "unbalanced"],
  [10, "TM01", "expired"],
  [11, "DT01", "expiry too far ahead"],
  [12, "AM05", "duplicate"],
  [13, "DS0A", "unsigned"],
  [14, "DS0B", "wrong signature"],
  [15, "FF01", "too many signers"],
  [16, "AB10", "overloaded"],
  [20, "AC01", "unknown account"],
  [21, "AC04", "closed account"],
  [22, "AC06", "blocked account"],
  [23, "AC09", "wrong asset"],
  [24, "AM04", "insufficient funds"],
  [25, "AM02", "above the limit"],
  [26, "AM12", "balance out of range"],
  [27, "AG01", "not the issuer"],
  [28, "AG01", "order not possible"],
  [29, "AG01", "not empty"],
  [30, "NARR", "not proven"],
  [40, "AB05", "approval timeout"],
  [41, "ED05", "approval conflict"],
  [42, "DS02", "withdrawn"],
];

/** The refusal of that number, if there is one; there is none for 0, which is yes. */
export function refusal(number: number): Refusal | null {
  const found = REFUSALS.find(([each]) => each === number);
  if (found === undefined) return null;
  const [, code, name] = found;
  return { number, code, name };
}

/** Whether that number is a verdict. */
export function isVerdict(number: number): boolean {
  return number === 0 || refusal(number) !== null;
}
