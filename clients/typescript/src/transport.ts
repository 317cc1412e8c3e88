/** Requests to a gateway over HTTP: bounded in time, size and repetition. */

import {
  Agent as HttpAgent,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  request as httpRequest,
  type RequestOptions,
} from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import {
  AnswerError,
  ArgumentError,
  DecodeError,
  ProblemError,
  TallystickError,
  TransportError,
} from "./errors.js";
import { parseJson } from "./json.js";
import { conform, type Schemas } from "./schema.js";

/** How a gateway is reached. */
export interface TransportOptions {
  /** Who asks: what `tally access grant` printed, or the text of `DIR/token`. */
  readonly token?: string;
  /** Certificates of the authorities by which the gateway is known, in PEM form; else those of the system. */
  readonly ca?: string | Uint8Array;
  /** A client certificate and its key in PEM form, for a user who is known by it. */
  readonly certificate?: { readonly certificate: string | Uint8Array; readonly key: string | Uint8Array };
  /** How long one attempt may take, in milliseconds; 60 s without it. */
  readonly timeoutMs?: number;
  /** How often a request is sent again at most; 3 without it. */
  readonly retries?: number;
  /** How long requests wait at most before they are sent again, all waits together, in milliseconds; 30 s without it. */
  readonly longestWaitMs?: number;
  /** The largest answer that is taken, in bytes; 64 MiB without it. */
  readonly largestAnswerBytes?: number;
}

/** A request. */
export interface Asked {
  readonly method: "GET" | "POST";
  /** Segments of the path, which are escaped here. */
  readonly path: readonly string[];
  readonly query?: { readonly [name: string]: string | number | bigint | undefined };
  readonly body?: { readonly type: string; readonly content: string | Uint8Array };
  readonly headers?: { readonly [name: string]: string };
  /** Whether sending it twice does no more than sending it once; a GET always is. */
  readonly isSafe?: boolean;
  /** Statuses that are answers, beside 200. */
  readonly alsoAnswers?: readonly number[];
}

/** An answer. */
export interface Answered {
  readonly status: number;
  readonly type: string;
  readonly text: string;
}

/** How an answer that has no end is listened to. */
export interface Listened {
  /** Its media type. */
  readonly type: string;
  /** How long nothing may come, in milliseconds. */
  readonly silenceMs: number;
  /** Ends it. */
  readonly signal?: AbortSignal | undefined;
}

interface Received extends Answered {
  /** Seconds, where the gateway says so (RFC 9110, section 10.2.3). */
  readonly retryAfterSeconds: number | undefined;
}

/** The shortest wait before a request is sent again that nobody said how long to wait for, in milliseconds. */
const FIRST_WAIT_MS = 100;

const LARGEST_ANSWER_BYTES = 64 << 20;

/** A gateway's address, and the connections to it. */
export class Transport {
  readonly #base: URL;
  readonly #agent: HttpAgent;
  readonly #options: TransportOptions;

  constructor(url: string, options: TransportOptions) {
    let base: URL;
    try {
      base = new URL(url.endsWith("/") ? url : `${url}/`);
    } catch (cause) {
      throw new ArgumentError(`'${url}' is no URL`, { cause });
    }
    if (base.protocol !== "https:" && base.protocol !== "http:") {
      throw new ArgumentError(`'${url}': https or http is wanted`);
    }
    if (base.protocol === "http:" && options.token !== undefined && !isLoopback(base.hostname)) {
      throw new ArgumentError(`a token is not sent to ${base.host} without TLS: use https`);
    }
    const { ca, certificate } = options;
    const certificates = {
      ...(ca === undefined ? {} : { ca: Buffer.from(ca) }),
      ...(certificate === undefined
        ? {}
        : { cert: Buffer.from(certificate.certificate), key: Buffer.from(certificate.key) }),
    };
    this.#base = base;
    this.#options = options;
    this.#agent =
      base.protocol === "https:"
        ? new HttpsAgent({ keepAlive: true, ...certificates })
        : new HttpAgent({ keepAlive: true });
  }

  /** How often a request is sent again at most. */
  get retries(): number {
    return this.#options.retries ?? 3;
  }

  /** How long requests wait at most before they are sent again, all waits together, in milliseconds. */
  get longestWaitMs(): number {
    return this.#options.longestWaitMs ?? 30_000;
  }

  /** Ends the connections that are open. */
  close(): void {
    this.#agent.destroy();
  }

  /** The JSON of an answer, checked to be what the interface says. */
  async json<Name extends keyof Schemas>(name: Name, asked: Asked, strict = false): Promise<Schemas[Name]> {
    const { text } = await this.text(asked);
    try {
      return conform(name, parseJson(text), { strict });
    } catch (cause) {
      if (!(cause instanceof DecodeError)) throw cause;
      throw new AnswerError(`${asked.method} ${pathOf(asked)}: ${cause.message}`, { cause });
    }
  }

  /**
   * Sends a request and returns its answer. What is safe to repeat is repeated: a GET, or what says so, after a failure of the
   * connection; and anything that was answered 429 or 503 with a time after which to send it again.
   *
   * @throws {ProblemError} when the gateway refuses it
   * @throws {TransportError} when there is no answer
   */
  async text(asked: Asked): Promise<Answered> {
    const { retries, longestWaitMs } = this;
    let waited = 0;
    for (let attempt = 0; ; attempt++) {
      const outcome = await this.#attempt(asked);
      const isAnswer = !(outcome instanceof TransportError);
      if (isAnswer && (outcome.status === 200 || asked.alsoAnswers?.includes(outcome.status) === true))
        return outcome;
      const error = isAnswer ? problemOf(outcome) : outcome;
      const wait = waitBefore(asked, error, attempt);
      if (wait === null || attempt >= retries || waited + wait > longestWaitMs) throw error;
      waited += wait;
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
  }

  /**
   * The parts of an answer that has no end, as they come. It has failed when nothing comes for `silenceMs`. Sent once.
   *
   * @throws {ProblemError} when the gateway refuses it
   * @throws {TransportError} when there is no answer, or it breaks off
   * @throws {AnswerError} when it is of another media type
   */
  async *parts(asked: Asked, { type, silenceMs, signal }: Listened): AsyncGenerator<Buffer, void, undefined> {
    signal?.throwIfAborted();
    const { url, send, options } = this.#request(asked);
    const request = send(url, { ...options, ...(signal === undefined ? {} : { signal }) });
    const within = async <T>(coming: Promise<T>): Promise<T> => {
      const silence = setTimeout(() => {
        request.destroy(new Error(`nothing came for ${silenceMs} ms`));
      }, silenceMs);
      try {
        return await coming;
      } finally {
        clearTimeout(silence);
      }
    };
    const answered = new Promise<IncomingMessage>((resolve, reject) => {
      // Errors that come after the answer are those of its parts too.
      request.on("response", resolve).on("error", reject);
    });
    request.end();
    try {
      const response = await within(answered);
      const { statusCode: status = 0, headers } = response;
      const told = headers["content-type"]?.split(";")[0]?.trim().toLowerCase() ?? "";
      if (status !== 200) {
        const text = await within(read(response, this.#options.largestAnswerBytes ?? LARGEST_ANSWER_BYTES));
        throw problemOf({ status, type: told, text, retryAfterSeconds: seconds(headers["retry-after"]) });
      }
      if (told !== type) throw new AnswerError(`GET ${url.href}: the answer is '${told}', ${type} is wanted`);
      const parts = (response as AsyncIterable<Buffer>)[Symbol.asyncIterator]();
      for (;;) {
        const part = await within(parts.next());
        signal?.throwIfAborted();
        if (part.done === true) return;
        yield part.value;
      }
    } catch (cause) {
      signal?.throwIfAborted();
      if (cause instanceof TallystickError) throw cause;
      throw new TransportError(`GET ${url.href}: ${messageOf(cause)}`, { cause });
    } finally {
      request.destroy();
    }
  }

  /** What a request is sent by and with, but for its body. */
  #request(asked: Asked): {
    url: URL;
    send: typeof httpRequest;
    options: Omit<RequestOptions, "headers"> & { headers: OutgoingHttpHeaders };
  } {
    const url = new URL(pathOf(asked), this.#base);
    for (const [name, value] of Object.entries(asked.query ?? {})) {
      if (value !== undefined) url.searchParams.set(name, String(value));
    }
    const { token } = this.#options;
    const headers = {
      accept: "*/*",
      ...(token === undefined ? {} : { authorization: `Bearer ${token.trim()}` }),
      ...asked.headers,
    };
    const send = url.protocol === "https:" ? httpsRequest : httpRequest;
    return { url, send, options: { method: asked.method, agent: this.#agent, headers } };
  }

  /** One attempt; a failure of the connection is returned, not thrown. */
  #attempt(asked: Asked): Promise<Received | TransportError> {
    const { url, send, options } = this.#request(asked);
    const { timeoutMs = 60_000, largestAnswerBytes = LARGEST_ANSWER_BYTES } = this.#options;
    const body = asked.body === undefined ? undefined : Buffer.from(asked.body.content);
    const described =
      body === undefined ? {} : { "content-type": asked.body?.type, "content-length": body.length };
    return new Promise((resolve) => {
      const failed = (why: string, cause?: unknown) => {
        clearTimeout(timer);
        resolve(new TransportError(`${asked.method} ${url.href}: ${why}`, { cause }));
      };
      const request = send(url, { ...options, headers: { ...described, ...options.headers } }, (response) => {
        read(response, largestAnswerBytes).then(
          (text) => {
            clearTimeout(timer);
            const { statusCode: status = 0, headers } = response;
            const type = headers["content-type"]?.split(";")[0]?.trim() ?? "";
            resolve({ status, type, text, retryAfterSeconds: seconds(headers["retry-after"]) });
          },
          (cause: unknown) => {
            failed(`the answer broke off: ${messageOf(cause)}`, cause);
          },
        );
      });
      const timer = setTimeout(() => {
        request.destroy(new Error(`no answer within ${timeoutMs} ms`));
      }, timeoutMs);
      request.on("error", (cause) => {
        failed(messageOf(cause), cause);
      });
      request.end(body);
    });
  }
}

/** How long to wait before a request is sent again, in milliseconds; `null` where it must not be. */
function waitBefore(asked: Asked, error: Error, attempt: number): number | null {
  if (error instanceof TransportError) {
    const isSafe = asked.isSafe ?? asked.method === "GET";
    return isSafe ? FIRST_WAIT_MS * 2 ** attempt : null;
  }
  if (!(error instanceof ProblemError) || (error.status !== 429 && error.status !== 503)) return null;
  return error.retryAfterSeconds === undefined ? null : error.retryAfterSeconds * 1000;
}

async function read(response: IncomingMessage, limit: number): Promise<string> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    length += chunk.length;
    if (length > limit) {
      response.destroy();
      throw new AnswerError(`it has more than ${limit} bytes`);
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

/** The problem details of an answer (RFC 9457); what other servers on the way answer is put into the same form. */
function problemOf(answer: Received): ProblemError {
  const { status, text, retryAfterSeconds } = answer;
  const after = retryAfterSeconds === undefined ? {} : { retryAfterSeconds };
  try {
    const { title, detail, code } = conform("ProblemDetails", parseJson(text));
    return ProblemError.of({ status, title, detail, code, ...after });
  } catch (error) {
    if (!(error instanceof DecodeError)) throw error;
    const detail = text.slice(0, 200).trim() || "there is no text";
    return ProblemError.of({
      status,
      title: "The answer has no problem details",
      detail,
      code: "http",
      ...after,
    });
  }
}

function pathOf(asked: Asked): string {
  return asked.path.map(encodeURIComponent).join("/");
}

function seconds(header: string | undefined): number | undefined {
  return header !== undefined && /^[0-9]{1,9}$/.test(header) ? Number(header) : undefined;
}

function isLoopback(host: string): boolean {
  return host === "localhost" || host === "[::1]" || /^127(\.[0-9]{1,3}){3}$/.test(host);
}

function messageOf(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause);
}
