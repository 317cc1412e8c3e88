/** A gateway of the tests: answers what it is told to, and remembers what it was asked. */

import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { formatJson } from "../src/index.js";

/** A request that came. */
export interface Asked {
  readonly method: string;
  /** Path and query. */
  readonly path: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: Buffer;
}

/** What is answered: with `cut`, the connection breaks off instead. */
export type Answer =
  | {
      readonly status?: number;
      readonly headers?: Record<string, string>;
      readonly body: unknown;
      /** After its body, nothing more is said, and the connection is kept. */
      readonly staysOpen?: boolean;
    }
  | "cut"
  | "never";

/** Runs `use` against a gateway on a free port. */
export async function withGateway(
  answer: (asked: Asked, count: number) => Answer,
  use: (url: string, asked: Asked[]) => Promise<void>,
): Promise<void> {
  const asked: Asked[] = [];
  const server = createServer((request, response) => {
    void buffer(request).then((body) => {
      const { method = "", url: path = "", headers } = request;
      const one = { method, path, headers, body };
      asked.push(one);
      const given = answer(one, asked.length);
      if (given === "cut") request.socket.destroy();
      if (typeof given === "string") return;
      response.writeHead(given.status ?? 200, { "content-type": "application/json", ...given.headers });
      const { body: said, staysOpen = false } = given;
      response.write(typeof said === "string" || said instanceof Uint8Array ? said : formatJson(said));
      if (!staysOpen) response.end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    await use(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked);
  } finally {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
}
