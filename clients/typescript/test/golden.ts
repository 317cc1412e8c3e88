/** The golden vectors of the crate that defines proofs. */

import { readFile } from "node:fs/promises";
import { resolve } from "node:path";

/** Tests run in this package's directory, which lies in the repository. */
const DIRECTORY = resolve("../../crates/proof/tests/golden");

export const goldenProof = await readFile(`${DIRECTORY}/proof.json`, "utf8");
export const goldenKeys = await readFile(`${DIRECTORY}/keys.json`, "utf8");

/** The same under cosignatures, with keys that ask for two. */
export const cosignedProof = await readFile(`${DIRECTORY}/cosigned_proof.json`, "utf8");
export const cosignedKeys = await readFile(`${DIRECTORY}/cosigned_keys.json`, "utf8");
export const cosignedConsistency = await readFile(`${DIRECTORY}/cosigned_consistency.json`, "utf8");

/** What is signed in one network, and in another whose id begins with the same four bytes. */
interface Forms {
  readonly network: string;
  readonly namesake: string;
  readonly owner: string;
  readonly owner_seed: string;
  readonly operator: string;
  readonly operator_seed: string;
  readonly transactions: readonly {
    readonly name: string;
    /** A batch of one. */
    readonly batch: string;
    readonly participants: readonly number[];
    readonly id: string;
    readonly id_on_namesake: string;
    readonly signature: string;
    readonly signature_on_namesake: string;
  }[];
  readonly approval: {
    readonly answers: readonly {
      readonly id: string;
      readonly index: number;
      readonly verdict: number;
      readonly leaf: string;
    }[];
    readonly participant: number;
    readonly scheduler: number;
    readonly batch: number;
    readonly batch_len: number;
    readonly signature: string;
    readonly signature_on_namesake: string;
  };
  readonly tree_head: {
    readonly size: number;
    readonly timestamp_ms: number;
    readonly root: string;
    readonly bytes: string;
    readonly signature: string;
    readonly signature_on_namesake: string;
  };
  readonly cosignature: {
    readonly size: number;
    readonly root: string;
    readonly time_s: number;
    readonly message: string;
    readonly signature: string;
    readonly signature_on_namesake: string;
  };
}

export const goldenForms = JSON.parse(await readFile(`${DIRECTORY}/ids.json`, "utf8")) as Forms;
