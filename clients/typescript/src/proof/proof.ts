/** The proof of a payment: its contents, its place in the global order, and who approved it. Checked without any network. */

import { DecodeError, ProofError, TallystickError } from "../errors.js";
import { readFileWithin } from "../file.js";
import { fromHex, sameBytes, toHex } from "../hex.js";
import { formatJson, parseJson } from "../json.js";
import { type Refusal, refusal } from "../refusal.js";
import { conform, type Schemas } from "../schema.js";
import type { Leg } from "../transaction.js";
import { type About, verifyApproval } from "./approval.js";
import { contentsId, shownLeg } from "./contents.js";
import type { TreeHead } from "./head.js";
import type { Keys } from "./keys.js";
import { verifyReceipt } from "./receipt.js";

/** The version of the form that is read. */
const VERSION = 1;
/** The largest proof that is read, in bytes. */
const MAX_PROOF_BYTES = 1 << 20;

/** A proof as a gateway gives it: nothing in it is true until it was verified. */
export type Proof = Schemas["Proof"];

/** An institution's answer, under its own signature. */
export interface Answered {
  readonly participant: number;
  /** By the keys. */
  readonly bic: string;
  /** Why it refused; `null` for yes. */
  readonly refusal: Refusal | null;
}

/** What was proven. */
export interface Verified {
  /** The transaction's id, in hexadecimal. */
  readonly id: string;
  /** Its end-to-end reference. */
  readonly uetr: string;
  /** Why it was refused, for good; `null`: it is settled, for good. */
  readonly refusal: Refusal | null;
  /** Its place in the global order, from 0. */
  readonly sequence: bigint;
  /** When it got that place by the operator's clock, in milliseconds since the Unix epoch. */
  readonly timestampMs: bigint;
  /** The signed state of the operator's log that has it. */
  readonly head: TreeHead;
  /** The answers that are shown, by participant. */
  readonly answers: readonly Answered[];
  /** How many institutions are concerned, all of whom must approve what is settled. */
  readonly participants: number;
  /** How many approvals of a settled payment are not shown. */
  readonly notShown: number;
  /** The legs that are shown, with their positions. */
  readonly legs: readonly { readonly position: number; readonly leg: Leg }[];
}

/** Reads a proof from JSON text. @throws {DecodeError} when it is no proof */
export function parseProof(text: string): Proof {
  if (text.length > MAX_PROOF_BYTES) throw new DecodeError("proof", "the text is too long", 0);
  const value = parseJson(text, "proof");
  // Older files have no list of what is missing; it is only a hint.
  const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
  const whole = isObject && !("missing" in value) ? { ...value, missing: [] } : value;
  return conform("Proof", whole, { strict: true, what: "proof" });
}

/** Reads a proof from a file. */
export async function readProof(path: string): Promise<Proof> {
  return parseProof((await readFileWithin(path, MAX_PROOF_BYTES)).toString("utf8"));
}

/** The proof as JSON text, which `tally verify` reads too. */
export function formatProof(proof: Proof): string {
  return `${formatJson(proof, 2)}\n`;
}

/**
 * Checks that the transaction is final, has its place, and, if it is settled, that every institution concerned approved it.
 *
 * That these are all institutions concerned rests on the count that the id commits to, which each of them signed; where all
 * legs are shown, it is checked against them.
 *
 * @param finality with `true` the place in the order is enough: approvals that are not shown are counted in
 * {@link Verified.notShown}, and those that are shown are checked
 * @throws {ProofError} when any of that is not shown
 */
export function verifyProof(
  proof: Proof,
  keys: Keys,
  { finality = false }: { finality?: boolean } = {},
): Verified {
  let verified: Verified;
  try {
    verified = verify(proof, keys);
  } catch (cause) {
    if (cause instanceof ProofError || !(cause instanceof TallystickError)) throw cause;
    // A number or a text that the signed form cannot hold.
    throw new ProofError("form", `the proof cannot be one: ${cause.message}`, { cause });
  }
  const { notShown, participants } = verified;
  if (notShown > 0 && !finality) {
    throw new ProofError(
      "not-shown",
      `the payment is final, but the approvals of ${notShown} of ${participants} institutions are not shown: ` +
        "ask for finality alone, or for a proof with all approvals",
    );
  }
  return verified;
}

function verify(proof: Proof, keys: Keys): Verified {
  const { version, transaction: contents, receipt } = proof;
  if (version !== VERSION) {
    throw new ProofError("version", `the proof is of version ${version}, and this program reads ${VERSION}`);
  }
  const network = fromHex(contents.network, "the network's id", 4);
  if (new DataView(network.buffer).getUint32(0) !== keys.network) {
    throw new ProofError(
      "network",
      `the proof is of network ${contents.network}, and the keys are of another`,
    );
  }
  const id = contentsId(contents, keys.network);
  if (!sameBytes(id, fromHex(receipt.id, "the receipt's id", 32))) {
    throw new ProofError("id", `the contents have the id ${toHex(id)}, and the receipt is of ${receipt.id}`);
  }
  const concerned = concernedBy(contents);
  if (proof.approvals.length > contents.participants) {
    throw new ProofError("form", "there are more answers than participants");
  }
  let head: TreeHead;
  try {
    head = verifyReceipt(receipt, keys.operator);
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new ProofError("receipt", `the payment's place in the global order is not proven: ${why}`, {
      cause,
    });
  }
  const answers = answersOf(proof, keys, id, concerned);
  const isSettled = receipt.verdict === 0;
  return {
    id: toHex(id),
    uetr: contents.uetr.toLowerCase(),
    refusal: refusal(receipt.verdict),
    sequence: receipt.sequence,
    timestampMs: receipt.timestamp,
    head,
    answers,
    participants: contents.participants,
    notShown: isSettled ? contents.participants - answers.length : 0,
    legs: contents.legs.flatMap((proven, position) => {
      const leg = shownLeg(proven);
      return leg === null ? [] : [{ position, leg }];
    }),
  };
}

/** The participants that are known to be concerned. */
interface Concerned {
  readonly shown: ReadonlySet<number>;
  /** Whether there are no others. */
  readonly allKnown: boolean;
}

function concernedBy(contents: Schemas["Contents"]): Concerned {
  const legs = contents.legs.flatMap((leg) => shownLeg(leg) ?? []);
  const shown = new Set(legs.map((leg) => leg.participant));
  const { participants } = contents;
  const allLegs = legs.length > 0 && legs.length === contents.legs.length;
  const fits = allLegs ? shown.size === participants : shown.size <= participants;
  if (participants === 0 || !fits) {
    throw new ProofError("form", "the legs are of another number of participants than the transaction says");
  }
  return { allKnown: shown.size === participants, shown };
}

function answersOf(proof: Proof, keys: Keys, id: Uint8Array, concerned: Concerned): Answered[] {
  const { receipt, transaction, approvals } = proof;
  const { expiry, participants } = transaction;
  const about: About = { id, expiry, participants, scheduler: receipt.scheduler, batch: receipt.batch };
  const answers = new Map<number, Answered>();
  for (const approval of approvals) {
    const { participant, verdict } = approval;
    const institution = keys.institution(participant);
    if (institution === null) {
      throw new ProofError(
        "unknown-institution",
        `participant ${participant} answered, and the keys do not name it`,
      );
    }
    const { bic, key } = institution;
    if (answers.has(participant)) throw new ProofError("twice", `the answer of ${bic} is there twice`);
    if (concerned.allKnown && !concerned.shown.has(participant)) {
      throw new ProofError("not-concerned", `${bic} answered and has no leg in the transaction`);
    }
    const said = refusal(verdict);
    try {
      verifyApproval(approval, about, key);
      if (verdict !== 0 && said === null) throw new ProofError("form", "the verdict is none");
    } catch (cause) {
      const why = cause instanceof Error ? cause.message : String(cause);
      throw new ProofError("approval", `the answer of ${bic} is not proven: ${why}`, { cause });
    }
    if (receipt.verdict === 0 && said !== null) {
      throw new ProofError("refused", `the payment is said to be settled, and ${bic} refused it`);
    }
    answers.set(participant, { participant, bic, refusal: said });
  }
  return [...answers.values()].sort((one, other) => one.participant - other.participant);
}
