import assert from "node:assert/strict";
import test from "node:test";
import { type Block, EventStream, LARGEST_BLOCK_BYTES } from "../src/event_stream.js";
import { AnswerError } from "../src/index.js";

const TEXT =
  "\ufeffid: 6\n: hello\n\n" +
  "id: 7\nevent: outcome\ndata: {\ndata:  ü\ndata\n\n" +
  "id:8\n\n" +
  "retry: 10\nunknown: field\ndata:x:y\n\n" +
  "id: 9\ndata: never ended";
const BLOCKS: Block[] = [
  { id: "6", name: "", data: null },
  { id: "7", name: "outcome", data: "{\n ü\n" },
  { id: "8", name: "", data: null },
  { id: "8", name: "", data: "x:y" },
];

function read(...parts: Uint8Array[]): Block[] {
  const stream = new EventStream();
  return parts.flatMap((part) => [...stream.feed(part)]);
}

for (const end of ["\n", "\r", "\r\n"]) {
  test(`a stream with ${JSON.stringify(end)} is read in any parts`, () => {
    const text = Buffer.from(TEXT.replaceAll("\n", end));
    assert.deepEqual(read(text), BLOCKS);
    for (let at = 0; at <= text.length; at++) {
      assert.deepEqual(read(text.subarray(0, at), text.subarray(at)), BLOCKS, `split at ${at}`);
    }
    assert.deepEqual(read(...Array.from(text, (byte) => Uint8Array.of(byte))), BLOCKS);
  });
}

test("line ends may be mixed", () => {
  assert.deepEqual(read(Buffer.from("data: a\r\ndata: b\rdata: c\n\r\r\n")), [
    { id: null, name: "", data: "a\nb\nc" },
    { id: null, name: "", data: null },
  ]);
});

test("an id with a NUL is none", () => {
  const block = { id: "1", name: "", data: null };
  assert.deepEqual(read(Buffer.from("id: 1\n\nid: 2\0\n\n")), [block, block]);
});

test("an event is read up to a limit", () => {
  const fits = "x".repeat(LARGEST_BLOCK_BYTES - 7);
  assert.equal(read(Buffer.from(`data: ${fits}\n\n: ${fits}\n`), Buffer.from("\n".repeat(200))).length, 201);
  const parts = (piece: string) => Array.from({ length: 1 << 10 }, () => Buffer.from(piece.repeat(1 << 10)));
  for (const piece of ["xy", ": ", "data\n", "data: x\n"]) {
    assert.throws(() => read(...parts(piece)), AnswerError, piece);
  }
});
