import assert from "node:assert/strict";
import test from "node:test";
import {
  AnswerError,
  BusyError,
  ProblemError,
  SigningKey,
  Tallystick,
  TransportError,
} from "../src/index.js";
import { withGateway } from "./fake_gateway.js";

const BOOKS = { institution: "BANKDEFF", next_account: 7n };
const problem = (status: number, headers: Record<string, string> = {}) => ({
  status,
  headers,
  body: {
    type: "urn:tallystick:problem:AB10",
    title: "busy",
    status: BigInt(status),
    detail: "later",
    code: "AB10",
  },
});

test("names are escaped, and the token is sent", async () => {
  await withGateway(
    () => ({ body: BOOKS }),
    async (url, asked) => {
      const client = new Tallystick(`${url}/base/`, { token: "secret\n" });
      assert.deepEqual(await client.books("../x y?"), { institution: "BANKDEFF", next_account: 7 });
      assert.equal(asked[0]?.path, "/base/v1/accounts/..%2Fx%20y%3F");
      assert.equal(asked[0].headers.authorization, "Bearer secret");
      client.close();
    },
  );
});

test("what is safe is sent again, as long as it was said to be", async () => {
  await withGateway(
    (_, count) =>
      count === 1 ? "cut" : count === 2 ? problem(503, { "retry-after": "0" }) : { body: BOOKS },
    async (url, asked) => {
      const client = new Tallystick(url);
      assert.equal((await client.books("BANKDEFF")).next_account, 7);
      assert.equal(asked.length, 3);
      client.close();
    },
  );
});

test("repetitions are bounded in number and in time", async () => {
  for (const [options, after, times] of [
    [{ retries: 2 }, "0", 3],
    [{ longestWaitMs: 4000 }, "5", 1],
  ] as const) {
    await withGateway(
      () => problem(429, { "retry-after": after }),
      async (url, asked) => {
        const client = new Tallystick(url, options);
        await assert.rejects(
          client.books("BANKDEFF"),
          (error: unknown) =>
            error instanceof BusyError && error.code === "AB10" && error.retryAfterSeconds === Number(after),
        );
        assert.equal(asked.length, times);
        client.close();
      },
    );
  }
});

test("a 503 that does not say when is not sent again", async () => {
  await withGateway(
    () => problem(503),
    async (url, asked) => {
      await assert.rejects(new Tallystick(url).books("BANKDEFF"), BusyError);
      assert.equal(asked.length, 1);
    },
  );
});

test("what may not be done twice is not sent again", async () => {
  await withGateway(
    () => "cut",
    async (url, asked) => {
      const client = new Tallystick(url);
      await assert.rejects(client.submitMessage("<Document/>", []), TransportError);
      await assert.rejects(client.submit([]), TransportError);
      assert.deepEqual(
        asked.filter(({ method }) => method === "POST").map(({ path }) => path),
        ["/v1/transactions"],
      );
      client.close();
    },
  );
});

test("a gateway that does not answer in time is not waited for", async () => {
  await withGateway(
    () => "never",
    async (url) => {
      const client = new Tallystick(url, { timeoutMs: 50, retries: 0 });
      await assert.rejects(client.books("BANKDEFF"), /no answer within 50 ms/);
      client.close();
    },
  );
});

test("an answer that is too long, or not what it should be, is none", async () => {
  const long = `{"institution":"x","next_account":7${" ".repeat(2000)}}`;
  const answers = [long, "{", "[]", '{"institution":1,"next_account":7}', '{"institution":"x"}'];
  for (const body of answers) {
    await withGateway(
      () => ({ body }),
      async (url) => {
        const client = new Tallystick(url, { largestAnswerBytes: 1000, retries: 0 });
        const fits = (error: unknown) => error instanceof AnswerError || error instanceof TransportError;
        await assert.rejects(client.books("BANKDEFF"), fits, body.slice(0, 40));
        client.close();
      },
    );
  }
});

test("what is no problem details is a problem too", async () => {
  await withGateway(
    () => ({ status: 502, body: "<html>bad gateway</html>" }),
    async (url) => {
      const fits = (error: unknown) =>
        error instanceof ProblemError && error.status === 502 && error.code === "http";
      await assert.rejects(new Tallystick(url).books("BANKDEFF"), fits);
    },
  );
});

test("one that has stopped says so", async () => {
  await withGateway(
    () => ({ status: 503, body: { healthy: false, text: "stopped" } }),
    async (url) => {
      assert.deepEqual(await new Tallystick(url).health(), { healthy: false, text: "stopped" });
    },
  );
});

test("a key is not shown", () => {
  const key = SigningKey.fromSeed("07".repeat(32));
  assert.ok(!JSON.stringify({ key }).includes("0707") && !String(key).includes("0707"));
});
