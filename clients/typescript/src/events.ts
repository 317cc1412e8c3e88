/** Outcomes as they become final: a stream that is opened again wherever it ends. */

import { setTimeout as pause } from "node:timers/promises";
import { AnswerError, DecodeError, ProblemError, TransportError } from "./errors.js";
import { type Block, EventStream } from "./event_stream.js";
import { parseJson } from "./json.js";
import { conform, type Schemas } from "./schema.js";
import type { Session } from "./session.js";

/** A transaction that became final. */
export interface OutcomeEvent {
  /** Its place in the global order: `after` it, nothing is told twice or missed. */
  readonly sequence: bigint;
  /** What became of it. */
  readonly outcome: Schemas["OutcomeView"];
}

/** Which outcomes are wanted, and how long. */
export interface EventsOptions {
  /** Those after this sequence number; those from now on without it. */
  readonly after?: bigint;
  /** There is an end before this sequence number, once the network has reached it; none without it. */
  readonly until?: bigint;
  /** Ends the wait for the next. */
  readonly signal?: AbortSignal;
  /**
   * How long the gateway may say nothing before its connection is taken for dead, in milliseconds; 30 s without it. Gateways say
   * something every 10 s.
   */
  readonly longestSilenceMs?: number;
}

const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 10_000;
/** Also when the gateway says so: it may come back earlier than it thought. */
const LONGEST_TOLD_PAUSE_MS = 60_000;
const COME_AGAIN: readonly number[] = [429, 502, 503, 504];

/** Outcomes in the one global order, without end where none is given. */
export async function* events(
  session: Session,
  { after, until, signal, longestSilenceMs = 30_000 }: EventsOptions,
): AsyncGenerator<OutcomeEvent, void, undefined> {
  signal?.throwIfAborted();
  const { transport } = session;
  const place = new Place(after ?? (await decided(session)));
  let isOpen = false;
  let waited = 0;
  for (let failures = 0; !place.isBefore(until); failures++) {
    let toldPause = 0;
    try {
      const stream = new EventStream();
      const headers = place.headers;
      const asked = { method: "GET", path: ["v1", "events"], query: { until }, headers } as const;
      const listened = { type: "text/event-stream", silenceMs: longestSilenceMs, signal };
      for await (const part of transport.parts(asked, listened)) {
        isOpen = true;
        failures = 0;
        for (const block of stream.feed(part)) {
          const event = place.told(block);
          if (event !== null) yield event;
          if (place.isBefore(until)) return;
        }
      }
    } catch (error) {
      if (!comesAgain(error)) throw error;
      toldPause = error instanceof ProblemError ? (error.retryAfterSeconds ?? 0) * 1000 : 0;
      waited += toldPause;
      if (!isOpen && (failures >= transport.retries || waited > transport.longestWaitMs)) throw error;
    }
    await pause(pauseMs(failures, toldPause), undefined, { signal }).catch((error: unknown) => {
      signal?.throwIfAborted();
      throw error;
    });
  }
}

/** The sequence number of the last transaction that was decided; `null` where none was. */
async function decided(session: Session): Promise<bigint | null> {
  // Where the stream begins is settled once, and not as often as it is opened.
  const { sequence } = (await session.view()).view;
  return sequence === 0n ? null : sequence - 1n;
}

/** How far the gateway has told. */
class Place {
  #last: bigint | null;

  constructor(last: bigint | null) {
    this.#last = last;
  }

  /** Whether nothing lies between it and that sequence number. */
  isBefore(sequence: bigint | undefined): boolean {
    return sequence !== undefined && (this.#last ?? -1n) + 1n >= sequence;
  }

  get headers(): Record<string, string> {
    const accept = { accept: "text/event-stream" };
    return this.#last === null ? accept : { ...accept, "last-event-id": this.#last.toString() };
  }

  /** The event of a block, if it is one; moves on to where it is. */
  told({ id, name, data }: Block): OutcomeEvent | null {
    const last = this.#last;
    const sequence = id === null ? last : sequenceOf(id);
    if (name !== "outcome" || data === null) {
      if (sequence !== null && last !== null && sequence < last) {
        throw new AnswerError(`the gateway goes back from ${last} to ${sequence}`);
      }
      this.#last = sequence;
      return null;
    }
    if (sequence === null || (last !== null && sequence <= last)) {
      throw new AnswerError(`the gateway tells outcome ${String(sequence)} after ${String(last)}`);
    }
    const outcome = outcomeOf(data);
    if (outcome.sequence !== sequence) {
      throw new AnswerError(`the gateway tells outcome ${String(outcome.sequence)} as ${sequence}`);
    }
    this.#last = sequence;
    return { sequence, outcome };
  }
}

function sequenceOf(text: string): bigint {
  if (!/^[0-9]{1,20}$/.test(text)) throw new AnswerError(`'${text.slice(0, 40)}' is no sequence number`);
  return BigInt(text);
}

function outcomeOf(data: string): Schemas["OutcomeView"] {
  try {
    return conform("OutcomeView", parseJson(data));
  } catch (cause) {
    if (!(cause instanceof DecodeError)) throw cause;
    throw new AnswerError(`GET v1/events: ${cause.message}`, { cause });
  }
}

function comesAgain(error: unknown): boolean {
  return (
    error instanceof TransportError || (error instanceof ProblemError && COME_AGAIN.includes(error.status))
  );
}

/** Grows with every failure; differs, so that not everybody comes again at once. */
function pauseMs(failures: number, told: number): number {
  const own = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** failures) * (0.5 + Math.random());
  return Math.max(own, Math.min(told, LONGEST_TOLD_PAUSE_MS));
}
