/** Proofs that are made here: of a payment between two banks over a central bank, alone in its batch and in the log. */

import { Keys, KIND, newTransaction, type Proof, SigningKey, toHex, transactionId } from "../src/index.js";
import { blake3 } from "@noble/hashes/blake3";
import { domain, keyed } from "../src/hash.js";
import { logLeaf } from "../src/proof/tree.js";
import { legHash, legSalt } from "../src/transaction.js";
import { Writer } from "../src/wire.js";

const key = (participant: number) => SigningKey.fromSeed(new Uint8Array(32).fill(participant + 1));
const leg = (participant: number, account: number, amount: bigint) => ({
  participant,
  asset: 0,
  account,
  amount,
});
const NETWORK = "7a110001".padEnd(64, "5c");
const settlement = (holder: number) => 2 ** 31 + holder + 2;
const transaction = newTransaction(
  KIND.transfer,
  {
    network: NETWORK,
    uetr: "97ed4827-7b6f-4491-a06f-b548d5a7512d",
    expiry: 1_750_000_060_000n,
    details: new Uint8Array(32),
    seed: new Uint8Array(16).fill(9),
  },
  [leg(1, 7, -1250n), leg(0, settlement(1), -1250n), leg(0, settlement(2), 1250n), leg(2, 3, 1250n)],
);
const DECIDED_MS = 1_750_000_000_020n;

export const madeKeys = new Keys(
  transaction.network,
  key(0).publicKey,
  ["CENTDEFF", "BANKDEFF", "BANKFRPP", "BANKESMM"].map((bic, participant) => {
    return { participant, bic, key: key(participant).publicKey };
  }),
);

/** What of a made proof is other than usual. */
export interface Made {
  /** The verdict of the decision. */
  readonly verdict?: number;
  /** Who answers what. */
  readonly answers?: readonly (readonly [participant: number, verdict: number])[];
  /** The positions of the legs that are shown. */
  readonly shown?: readonly number[];
  readonly headMs?: bigint;
  /** Whom the proof lists as participants. */
  readonly participants?: readonly number[];
  readonly index?: number;
}

/** Under which a network of that id hashes, by the definition of version 2. */
function networkKey(context: string): Uint8Array {
  return blake3(Buffer.from(NETWORK, "hex"), { context: Buffer.from(context) });
}

export function madeProof(made: Made = {}): Proof {
  const { verdict = 0, shown = [], headMs = DECIDED_MS, participants = [0, 1, 2], index = 0 } = made;
  const {
    answers = [
      [0, 0],
      [1, 0],
      [2, 0],
    ],
  } = made;
  const id = transactionId(transaction);
  const decision = new Writer().bytes(id).u64(0n).u16(verdict).zeros(22).finish();
  const root = keyed(domain("tallystick 2026 decision leaf 01"), decision);
  const batch = new Writer().bytes(root).u64(0n).u32(1).u64(1n).u64(40n).u64(DECIDED_MS).finish();
  const logRoot = logLeaf(batch);
  const head = Buffer.alloc(112, "tallystick 2026 log tree head v2");
  head.write(NETWORK, 32, "hex");
  head.writeBigUInt64BE(1n, 64);
  head.writeBigUInt64BE(headMs, 72);
  head.set(logRoot, 80);
  const approval = ([participant, answer]: readonly [number, number]) => {
    const input = new Writer().bytes(id).u32(index).u16(answer).zeros(26);
    const leaf = keyed(domain("tallystick 2026 approval leaf 02"), input.finish());
    const said = new Writer().bytes(leaf).u64(40n).u64(1n).u16(participant).u32(1).zeros(10).finish();
    const statement = keyed(networkKey("tallystick settlement v2 approval"), said);
    const signature = key(participant).sign(statement);
    return { participant, verdict: answer, index, batch_len: 1, path: [], signature: toHex(signature) };
  };
  return {
    version: 2,
    transaction: {
      kind: transaction.kind,
      participants: [...participants],
      network: NETWORK,
      expiry: transaction.expiry,
      uetr: transaction.uetr,
      details: toHex(transaction.details),
      legs: transaction.legs.map((each, position) => {
        const salt = legSalt(transaction.seed, position);
        if (shown.includes(position)) return { shown: { ...each, salt: toHex(salt) } };
        return { hidden: toHex(legHash(salt, each, position)) };
      }),
    },
    receipt: {
      id: toHex(id),
      sequence: 0n,
      verdict,
      first: 0n,
      count: 1,
      scheduler: 1n,
      batch: 40n,
      timestamp: DECIDED_MS,
      decision_path: [],
      root: toHex(root),
      leaf: 0n,
      tree_path: [],
      head: {
        head: { size: 1n, root: toHex(logRoot), timestamp_ms: headMs },
        signature: toHex(key(0).sign(head)),
      },
    },
    approvals: answers.map(approval),
    missing: [],
  };
}
