import assert from "node:assert/strict";
import test from "node:test";
import {
  AccessError,
  AnswerError,
  BusyError,
  ProblemError,
  Tallystick,
  TransportError,
} from "../src/index.js";
import { type Answer, type Asked, withGateway } from "./fake_gateway.js";

const UETR = "97ed4827-7b6f-4491-a06f-b548d5a7512d";
const outcome = (sequence: number) =>
  `id: ${sequence}\nevent: outcome\n` +
  `data: {"id":"${"00".repeat(32)}","uetr":"${UETR}","status":"ACSC","sequence":${sequence}}\n\n`;
const stream = (body: string | Uint8Array, staysOpen = false): Answer => ({
  headers: { "content-type": "text/event-stream" },
  body,
  staysOpen,
});
const problem = (status: number, headers: Record<string, string> = {}): Answer => ({
  status,
  headers,
  body: { type: "urn:x", title: "t", status: BigInt(status), detail: "d", code: "streams" },
});

/** Gives the answers one after the other, then 401. */
async function withAnswers(
  answers: readonly Answer[],
  use: (client: Tallystick, asked: Asked[]) => Promise<void>,
  retries = 3,
): Promise<void> {
  await withGateway(
    (_, count) => answers[count - 1] ?? problem(401),
    async (url, asked) => {
      const client = new Tallystick(url, { token: "t", retries });
      await use(client, asked);
      client.close();
    },
  );
}

async function next(events: AsyncGenerator<{ sequence: bigint }, void>): Promise<bigint | undefined> {
  const { value } = await events.next();
  return value?.sequence;
}

test("outcomes are told, and the stream goes on where it ended", async () => {
  const other = 'event: other\nid: 9\ndata: {"a": 1}\n\n';
  const answers: Answer[] = [
    stream(`:\n\n${outcome(5)}id: 8\n\n${other}id: 10\ndata: {`),
    "cut",
    problem(503),
    problem(429, { "retry-after": "0" }),
    stream(outcome(10) + outcome(12)),
  ];
  const use = async (client: Tallystick, asked: Asked[]) => {
    const events = client.events({ after: 3n });
    const first = await events.next();
    assert.deepEqual([first.value?.sequence, first.value?.outcome.uetr], [5n, UETR]);
    assert.deepEqual([await next(events), await next(events)], [10n, 12n]);
    assert.ok(asked.every(({ path }) => path === "/v1/events"));
    assert.deepEqual(
      asked.map(({ headers }) => headers["last-event-id"]),
      ["3", "9", "9", "9", "9"],
    );
    assert.equal(asked[0]?.headers.accept, "text/event-stream");
    assert.equal(asked[0].headers.authorization, "Bearer t");
    await assert.rejects(events.next(), AccessError);
    assert.equal(asked[5]?.headers["last-event-id"], "12");
    assert.deepEqual(await events.next(), { done: true, value: undefined });
  };
  await withAnswers(answers, use, 0);
});

test("it ends where it is to end", async () => {
  // The second stream ends as the gateway does when nothing of the last was for the user.
  const answers = [stream(`:\n\n${outcome(5)}`), stream(`${outcome(6)}id: 8\n\n`)];
  await withAnswers(answers, async (client, asked) => {
    const events = client.events({ after: 3n, until: 9n });
    assert.deepEqual([await next(events), await next(events), await next(events)], [5n, 6n, undefined]);
    assert.deepEqual(
      asked.map(({ path }) => path),
      ["/v1/events?until=9", "/v1/events?until=9"],
    );
    assert.equal(await next(client.events({ after: 8n, until: 9n })), undefined);
    assert.equal(asked.length, 2);
  });
});

test("without a place it begins where the network is", async () => {
  const network = {
    id: "07".repeat(32),
    participants: [],
    assets: [],
    signatures: "required",
    longest_validity_ms: 1n,
  };
  const view = (sequence: bigint): Answer => ({
    body: { network, kinds: [], totals: [], sequence, health: { healthy: true, text: "" } },
  });
  await withAnswers([view(5n), stream(outcome(5)), view(0n), stream(outcome(1))], async (client, asked) => {
    assert.equal(await next(client.events()), 5n);
    assert.equal(asked[1]?.headers["last-event-id"], "4");
    assert.equal(await next(client.events()), 1n);
    assert.equal(asked[3]?.headers["last-event-id"], undefined);
  });
});

for (const status of [400, 401, 403, 404, 500]) {
  test(`${status} ends it`, async () => {
    await withAnswers([stream(outcome(1)), problem(status)], async (client, asked) => {
      const events = client.events({ after: 0n });
      assert.equal(await next(events), 1n);
      const fits = (error: unknown) =>
        error instanceof ProblemError &&
        error.status === status &&
        error instanceof AccessError === (status === 401 || status === 403);
      await assert.rejects(events.next(), fits);
      assert.equal(asked.length, 2);
    });
  });
}

test("a stream that never opened is given up", async () => {
  const use = async (client: Tallystick, asked: Asked[]) => {
    await assert.rejects(client.events({ after: 0n }).next(), BusyError);
    assert.equal(asked.length, 2);
  };
  await withAnswers([problem(503), problem(503)], use, 1);
  await withAnswers([problem(429, { "retry-after": "3600" })], async (client) => {
    await assert.rejects(client.events({ after: 0n }).next(), BusyError);
  });
  await withAnswers(
    ["cut"],
    (client) => assert.rejects(client.events({ after: 0n }).next(), TransportError),
    0,
  );
});

for (const [why, answer] of Object.entries<Answer>({
  "no stream": { body: "{}" },
  "the same again": stream(outcome(8) + outcome(8)),
  "an earlier one": stream(outcome(7)),
  "a way back": stream("id: 6\n\n"),
  "an id that is no number": stream("id: x\n\n"),
  "an empty id": stream("id\n\n"),
  "an outcome without an id": stream("event: outcome\ndata: {}\n\n"),
  "no outcome": stream("id: 8\nevent: outcome\ndata: {}\n\n"),
  "no JSON": stream(Buffer.from("id: 8\nevent: outcome\ndata: \xff\n\n", "latin1")),
  "another's id": stream(outcome(8).replace("id: 8", "id: 9")),
  "an event without end": stream(`data: ${"x".repeat(1 << 20)}`),
})) {
  test(`${why} is an error`, async () => {
    await withAnswers([answer], async (client, asked) => {
      const events = client.events({ after: 7n });
      const both = async () => [await events.next(), await events.next()];
      await assert.rejects(both(), AnswerError);
      assert.equal(asked.length, 1);
    });
  });
}

test("a silent connection is dead", async () => {
  for (const silent of [stream(outcome(1), true), stream("", true), "never"] as const) {
    await withAnswers([silent, stream(outcome(2))], async (client, asked) => {
      const events = client.events({ after: 0n, longestSilenceMs: 100 });
      if ((await next(events)) === 1n) assert.equal(await next(events), 2n);
      assert.equal(asked.length, 2);
      await events.return();
    });
  }
});

test("an abort ends it wherever it is", async () => {
  const busy = Array.from({ length: 9 }, () => problem(503));
  for (const answers of [
    [stream(outcome(1), true)],
    [stream(outcome(1)), ...busy],
    [stream(outcome(1)), "never"],
  ]) {
    await withAnswers(answers as Answer[], async (client) => {
      const stop = new AbortController();
      const events = client.events({ after: 0n, signal: stop.signal });
      assert.equal(await next(events), 1n);
      const began = Date.now();
      setTimeout(() => stop.abort(), 300);
      await assert.rejects(events.next(), { name: "AbortError" });
      assert.ok(Date.now() - began < 5000);
      const why = new Error("no more");
      const late = client.events({ after: 0n, signal: AbortSignal.abort(why) });
      await assert.rejects(late.next(), (error) => error === why);
    });
  }
});

test("whoever has enough breaks it off", async () => {
  await withAnswers(
    [stream(outcome(1) + outcome(2), true), { body: { healthy: true, text: "" } }],
    async (client) => {
      for await (const { sequence } of client.events({ after: 0n })) {
        assert.equal(sequence, 1n);
        break;
      }
      assert.ok((await client.health()).healthy);
    },
  );
});
