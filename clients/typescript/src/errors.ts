/** Errors of this package: one base class, and a class for each thing that can be done about it. */

/** Whatever this package throws on purpose. */
export class TallystickError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** An argument cannot be used: nothing was sent. */
export class ArgumentError extends TallystickError {}

/** Bytes or text do not have the form that they should have. */
export class DecodeError extends TallystickError {
  /**
   * @param what what was being read, such as `transaction batch`
   * @param problem what is wrong
   * @param position where: a byte's offset, or the path of a value in a document
   */
  constructor(
    readonly what: string,
    readonly problem: string,
    readonly position: number | string,
  ) {
    super(`${what}: ${problem} at ${typeof position === "number" ? `byte ${position}` : position}`);
  }
}

/** A transaction is for another network than the one for which it was read. */
export class ForeignTransactionError extends DecodeError {}

/** A key or a key file cannot be used. */
export class KeyError extends TallystickError {}

/** The gateway could not be reached or did not answer in time. Whether it did what it was asked is not known. */
export class TransportError extends TallystickError {}

/** The gateway answered what its own document does not allow. */
export class AnswerError extends TallystickError {}

/** The members of problem details that a gateway sends (RFC 9457). */
export interface ProblemMembers {
  /** HTTP status. */
  readonly status: number;
  /** A code of ISO 20022 where there is one, such as `AC01`, else a word such as `not-found`. */
  readonly code: string;
  /** The kind of problem in words that do not depend on the request. */
  readonly title: string;
  /** What was wrong with this request. */
  readonly detail: string;
  /** Seconds after which it may be sent again, where the gateway says so. */
  readonly retryAfterSeconds?: number;
}

/** The gateway refused the request: problem details (RFC 9457). */
export class ProblemError extends TallystickError implements ProblemMembers {
  readonly status: number;
  readonly code: string;
  readonly title: string;
  readonly detail: string;
  readonly retryAfterSeconds?: number;

  constructor(problem: ProblemMembers) {
    super(`${problem.detail} (${problem.code}, HTTP ${problem.status})`);
    this.status = problem.status;
    this.code = problem.code;
    this.title = problem.title;
    this.detail = problem.detail;
    if (problem.retryAfterSeconds !== undefined) this.retryAfterSeconds = problem.retryAfterSeconds;
  }

  /** The error of the class that fits the status. */
  static of(problem: ProblemMembers): ProblemError {
    switch (problem.status) {
      case 401:
      case 403:
        return new AccessError(problem);
      case 404:
        return new NotFoundError(problem);
      case 429:
      case 503:
        return new BusyError(problem);
      default:
        return new ProblemError(problem);
    }
  }
}

/** Nobody was recognised (401), or the user may not do this (403). */
export class AccessError extends ProblemError {}

/** There is no such thing (404). */
export class NotFoundError extends ProblemError {}

/** More was sent than agreed (429), or the network cannot answer now (503): send it again later. */
export class BusyError extends ProblemError {}

/** The network refused a payment or an order, for good: a code of ISO 20022 and a sentence. */
export class RefusedError extends TallystickError {
  /**
   * @param code such as `AM04`
   * @param text what was wrong
   * @param uetr the reference of what was refused, where it has one
   */
  constructor(
    readonly code: string,
    readonly text: string,
    readonly uetr: string | null,
  ) {
    super(uetr === null ? `${code}: ${text}` : `${code}: ${text} (${uetr})`);
  }
}

/** What about a draft is not what was asked for. */
export type DraftFault =
  | "form"
  | "kind"
  | "network"
  | "uetr"
  | "expiry"
  | "id"
  | "details"
  | "legs"
  | "debtor"
  | "creditor"
  | "signers";

/** The gateway prepared something else than what was asked for. It was not signed. */
export class DraftError extends TallystickError {
  constructor(
    readonly fault: DraftFault,
    problem: string,
    options?: ErrorOptions,
  ) {
    super(`what the gateway prepared is not signed: ${problem}`, options);
  }
}

/** The gateway speaks for another network than the one that was pinned, or changed what it said before. */
export class NetworkMismatchError extends TallystickError {}

/** Which part of a proof does not prove what it should. */
export type ProofFault =
  | "version"
  | "form"
  | "network"
  | "id"
  | "receipt"
  | "unknown-institution"
  | "approval"
  | "twice"
  | "refused"
  | "not-concerned"
  | "not-shown"
  | "head"
  | "path"
  | "time"
  | "other-head"
  | "cosignature"
  | "too-few-witnesses";

/** A proof proves nothing, or less than was asked for. */
export class ProofError extends TallystickError {
  constructor(
    readonly fault: ProofFault,
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** Fewer institutions cosigned a head of the operator's log than the keys or the caller ask for. */
export class TooFewWitnessesError extends ProofError {
  /**
   * @param size how many records the head is of
   * @param wanted how many institutions are asked for
   * @param got how many there are, the operator not counted
   */
  constructor(
    readonly size: bigint,
    readonly wanted: number,
    readonly got: number,
  ) {
    super(
      "too-few-witnesses",
      `${got} of the ${wanted} institutions that are asked for cosigned the tree head of ${size} records: ` +
        "ask for a newer proof, or compare the head with what other institutions have seen",
    );
  }
}
