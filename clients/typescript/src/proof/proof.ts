/** The proof of a payment: its contents, its place in the global order, and who approved it. Checked without any network. */

import { DecodeError, ProofError, TallystickError } from "../errors.js";
import { readFileWithin } from "../file.js";
import { fromHex, networkIdBytes, sameBytes, toHex } from "../hex.js";
import { formatJson, parseJson } from "../json.js";
import { type Refusal, refusal } from "../refusal.js";
import { conform, type Schemas } from "../schema.js";
import type { Leg } from "../transaction.js";
import { type About, verifyApproval } from "./approval.js";
import { contentsId, shownLeg } from "./contents.js";
import type { TreeHead } from "./head.js";
import type { Keys } from "./keys.js";
import { verifyPlace } from "./receipt.js";
import { verifyCosignatures, type Witness, type WitnessOptions } from "./witness.js";

/** The version of the form that is read. */
const VERSION = 2;
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

/**
 * What was proven, and what was not.
 *
 * Not shown are the accounts, assets and amounts of `hiddenLegs` legs, the approvals of `notShown` institutions, and the document
 * behind the hash in the transaction's details. That the hidden legs are of institutions in `concerned` and of no others is not
 * shown by the proof either: the network refuses a transaction where they are not.
 */
export interface Verified {
  /** The network's id: 64 lower-case hexadecimal digits. */
  readonly network: string;
  /** The transaction's id, in hexadecimal: compare it with the id of what was signed. */
  readonly id: string;
  /** Its end-to-end reference, which its maker chose; another transaction may have asked for the same before. */
  readonly uetr: string;
  /** Why it was refused, for good; `null`: it is settled, for good. */
  readonly refusal: Refusal | null;
  /** Its place in the global order, from 0. */
  readonly sequence: bigint;
  /** When it got that place by the operator's clock, in milliseconds since the Unix epoch. */
  readonly timestampMs: bigint;
  /** The signed state of the operator's log that has it. */
  readonly head: TreeHead;
  /** The institutions that cosigned that head, by participant; the operator is none of them. */
  readonly witnesses: readonly Witness[];
  /** The answers that are shown, by participant. */
  readonly answers: readonly Answered[];
  /**
   * The participants whose approval it needs, ascending, as the id commits to them: those with a leg in it, or of the account
   * order.
   */
  readonly concerned: readonly number[];
  /** How many institutions are concerned. */
  readonly participants: number;
  /** How many approvals of a settled payment are not shown. */
  readonly notShown: number;
  /** The legs that are shown, with their positions. */
  readonly legs: readonly { readonly position: number; readonly leg: Leg }[];
  /** How many legs are not shown. */
  readonly hiddenLegs: number;
}

/** Reads a proof from JSON text. @throws {DecodeError} when it is none @throws {ProofError} when it is of another version */
export function parseProof(text: string): Proof {
  if (text.length > MAX_PROOF_BYTES) throw new DecodeError("proof", "the text is too long", 0);
  const value = parseJson(text, "proof");
  // Older files have no list of what is missing; it is only a hint.
  const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
  // Before its form, which goes with its version.
  if (isObject && typeof value["version"] === "bigint") checkVersion(value["version"]);
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
 * Checks that the transaction is final, has its place, and, if it is settled, that every institution concerned approved it; and
 * that as many institutions as the keys or `witnesses` ask for cosigned the head that has it.
 *
 * Who is concerned is in the list of participants that the id commits to and that each of them signed: nobody else's approval
 * counts, whether or not legs are shown. The legs that are shown are checked against the list.
 *
 * @param finality with `true` the place in the order is enough: approvals that are not shown are counted in
 * {@link Verified.notShown}, and those that are shown are checked
 * @throws {TooFewWitnessesError} when fewer institutions cosigned the head
 * @throws {ProofError} when any of that is not shown
 */
export function verifyProof(
  proof: Proof,
  keys: Keys,
  { finality = false, ...options }: { finality?: boolean } & WitnessOptions = {},
): Verified {
  let verified: Verified;
  try {
    verified = verify(proof, keys, options);
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

function verify(proof: Proof, keys: Keys, options: WitnessOptions): Verified {
  const { version, transaction: contents, receipt } = proof;
  checkVersion(version);
  networkIdBytes(contents.network, "$.transaction.network");
  if (contents.network !== keys.network) {
    throw new ProofError(
      "network",
      `the proof is of network ${contents.network}, and the keys are of network ${keys.network}`,
    );
  }
  const id = contentsId(contents);
  if (!sameBytes(id, fromHex(receipt.id, "the receipt's id", 32))) {
    throw new ProofError("id", `the contents have the id ${toHex(id)}, and the receipt is of ${receipt.id}`);
  }
  // Before any signature is verified: what others hand over must not cost more than it can show.
  if (proof.approvals.length > contents.participants.length) {
    throw new ProofError("form", "there are more answers than participants");
  }
  let head: TreeHead;
  try {
    head = verifyPlace(receipt, keys);
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new ProofError("receipt", `the payment's place in the global order is not proven: ${why}`, {
      cause,
    });
  }
  const witnesses = verifyCosignatures(head, receipt.cosignatures ?? [], keys, options);
  const answers = answersOf(proof, keys, id);
  const isSettled = receipt.verdict === 0;
  const { length: participants } = contents.participants;
  const legs = contents.legs.flatMap((proven, position) => {
    const leg = shownLeg(proven);
    return leg === null ? [] : [{ position, leg }];
  });
  return {
    network: contents.network,
    id: toHex(id),
    uetr: contents.uetr.toLowerCase(),
    refusal: refusal(receipt.verdict),
    sequence: receipt.sequence,
    timestampMs: receipt.timestamp,
    head,
    witnesses,
    answers,
    concerned: [...contents.participants],
    participants,
    notShown: isSettled ? participants - answers.length : 0,
    legs,
    hiddenLegs: contents.legs.length - legs.length,
  };
}

function checkVersion(version: number | bigint): void {
  if (BigInt(version) !== BigInt(VERSION)) {
    throw new ProofError(
      "version",
      `the proof is of version ${version}, and ${VERSION} is read here: take a client that goes with it`,
    );
  }
}

function answersOf(proof: Proof, keys: Keys, id: Uint8Array): Answered[] {
  const { receipt, transaction, approvals } = proof;
  const about: About = { network: keys.network, id, scheduler: receipt.scheduler, batch: receipt.batch };
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
    if (!transaction.participants.includes(participant)) {
      throw new ProofError(
        "not-concerned",
        `${bic} answered and is not among the transaction's participants`,
      );
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
