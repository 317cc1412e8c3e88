/** The golden vectors of the crate that defines proofs. */

import { readFile } from "node:fs/promises";
import { resolve } from "node:path";

/** Tests run in this package's directory, which lies in the repository. */
const DIRECTORY = resolve("../../crates/proof/tests/golden");

export const goldenProof = await readFile(`${DIRECTORY}/proof.json`, "utf8");
export const goldenKeys = await readFile(`${DIRECTORY}/keys.json`, "utf8");
