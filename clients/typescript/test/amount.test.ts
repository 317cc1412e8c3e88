import assert from "node:assert/strict";
import test from "node:test";
import fc from "fast-check";
import { ArgumentError, formatAmount, MAX_AMOUNT, parseAmount } from "../src/index.js";

test("decimals are exact", () => {
  assert.equal(parseAmount("99.99", 2), 9999n);
  assert.equal(parseAmount("5000", 2), 500_000n);
  assert.equal(parseAmount("1.500", 2), 150n);
  assert.equal(parseAmount("-0.07", 2), -7n);
  assert.equal(parseAmount("7", 0), 7n);
  assert.equal(parseAmount("0", 0), 0n);
  assert.equal(parseAmount("000123", 0), 123n);
  for (const bad of ["", ".5", "1.005", "1e3", "1,5", "+1", "--1", "9999999999999999999", "٣", "1\n"]) {
    assert.throws(() => parseAmount(bad, 2), ArgumentError, bad);
  }
});

test("an amount that is no text is a type error that says what to write", () => {
  for (const [wrong, exponent, says] of [
    [12n, 2, /12n write "12" or "0\.12"/],
    [12, 2, /12 .*"12" or "0\.12"/],
    [-5n, 3, /-5n .*"-5" or "-0\.005"/],
    [7n, 0, /7n .*"7"/],
    [12.34, 2, /such as "12\.34", .* the number 12\.34/],
    [Number.NaN, 2, /such as "12\.34"/],
    [null, 2, /such as "12\.34"/],
    [undefined, 2, /such as "12\.34"/],
    [new String("12"), 2, /such as "12\.34"/],
  ] as const) {
    assert.throws(
      () => parseAmount(wrong as unknown as string, exponent),
      (error: unknown) => error instanceof TypeError && says.test(error.message),
      String(wrong),
    );
  }
});

test("what is written is read back", () => {
  fc.assert(
    fc.property(fc.bigInt({ min: -MAX_AMOUNT, max: MAX_AMOUNT }), fc.nat(5), (amount, exponent) => {
      assert.equal(parseAmount(formatAmount(amount, exponent), exponent), amount);
    }),
  );
});
