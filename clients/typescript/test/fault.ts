import assert from "node:assert/strict";
import { ProofError } from "../src/index.js";

/** The fault for which a proof is refused, or "none"; any other error fails the test. */
export function fault(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    assert.ok(error instanceof ProofError, String(error));
    return error.fault;
  }
  return "none";
}
