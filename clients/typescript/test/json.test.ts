import assert from "node:assert/strict";
import test from "node:test";
import fc from "fast-check";
import { DecodeError, formatJson, parseJson } from "../src/index.js";

test("whole numbers are exact", () => {
  assert.deepEqual(parseJson('{"a":[9007199254740993,-1,0.5,1e2]}'), {
    a: [9007199254740993n, -1n, 0.5, 100],
  });
  assert.equal(
    formatJson({ a: [18446744073709551615n, true], b: undefined }),
    '{"a":[18446744073709551615,true]}',
  );
});

test("other text is an error", () => {
  const bad = [
    "",
    "01",
    "1.",
    "-",
    '{"a":1,"a":1}',
    "[1,]",
    "{,}",
    "[1 2]",
    '"\n"',
    '"\\x"',
    "nul",
    "1 1",
    "9".repeat(41),
    "[".repeat(100),
  ];
  for (const text of bad) assert.throws(() => parseJson(text), DecodeError, text);
});

test("a name is only a name", () => {
  const value = parseJson('{"__proto__":{"a":1}}');
  assert.equal((value as { a?: unknown }).a, undefined);
  assert.equal(formatJson(value), '{"__proto__":{"a":1}}');
});

test("texts of all kinds are read as the standard reader does", () => {
  const numbers = (value: unknown): unknown => {
    if (typeof value === "bigint") return Number(value);
    if (Array.isArray(value)) return value.map(numbers);
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, numbers(item)]));
  };
  fc.assert(
    fc.property(fc.json(), (text) => {
      assert.deepEqual(numbers(parseJson(text)), numbers(JSON.parse(text)));
    }),
  );
});
