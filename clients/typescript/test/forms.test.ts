/** What is signed, byte by byte: the vectors of the crate that defines it, also of a network whose id begins alike. */

import assert from "node:assert/strict";
import test from "node:test";
import {
  decodeOne,
  encodeOne,
  fromHex,
  ProofError,
  participantsOf,
  type Schemas,
  SigningKey,
  sign,
  toHex,
  transactionId,
  verifyTreeHead,
} from "../src/index.js";
import { verifyApproval } from "../src/proof/approval.js";
import { headBytes } from "../src/proof/head.js";
import { batchNode } from "../src/proof/tree.js";
import { goldenForms } from "./golden.js";

const owner = SigningKey.fromSeed(goldenForms.owner_seed);
const operator = SigningKey.fromSeed(goldenForms.operator_seed);
const networks = [
  { suffix: "", network: goldenForms.network },
  { suffix: "_on_namesake", network: goldenForms.namesake },
] as const;

function isProven(run: () => unknown): boolean {
  try {
    run();
    return true;
  } catch (error) {
    assert.ok(error instanceof ProofError, String(error));
    return false;
  }
}

test("the networks begin alike", () => {
  assert.equal(goldenForms.network.slice(0, 8), goldenForms.namesake.slice(0, 8));
  assert.notEqual(goldenForms.network, goldenForms.namesake);
});

test("transactions have their ids and signatures", () => {
  assert.ok(goldenForms.transactions.length >= 11);
  assert.equal(owner.publicHex, goldenForms.owner);
  for (const vector of goldenForms.transactions) {
    for (const { suffix, network } of networks) {
      const transaction = decodeOne(vector.batch, network);
      assert.deepEqual(participantsOf(transaction), vector.participants, vector.name);
      assert.equal(toHex(transactionId(transaction)), vector[`id${suffix}`], vector.name);
      const [signer] = sign({ ...transaction, signers: [] }, owner).signers;
      assert.equal(signer && toHex(signer.signature), vector[`signature${suffix}`], vector.name);
      // The wire form is of both networks but for what is signed.
      assert.equal(encodeOne(transaction), vector.batch, vector.name);
    }
  }
});

test("answers are signed for one network", () => {
  const { approval: form } = goldenForms;
  const [first, second, third] = form.answers.map(({ leaf }) => leaf);
  assert.ok(first && second && third);
  const paths: Schemas["Approval"]["path"][] = [
    [{ right: second }, { right: third }],
    [{ left: first }, { right: third }],
    [{ left: toHex(batchNode(fromHex(first), fromHex(second))) }],
  ];
  form.answers.forEach(({ id, index, verdict }, position) => {
    const { participant, batch_len, scheduler, batch } = form;
    for (const { suffix, network } of networks) {
      const signature = form[`signature${suffix}`];
      const answer = { participant, verdict, index, batch_len, path: paths[position] ?? [], signature };
      for (const { network: other } of networks) {
        const about = { network: other, id: fromHex(id), scheduler: BigInt(scheduler), batch: BigInt(batch) };
        const holds = (change: Partial<Schemas["Approval"]> = {}) =>
          isProven(() => {
            verifyApproval({ ...answer, ...change }, about, owner.publicKey);
          });
        assert.equal(holds(), other === network);
        assert.equal(holds({ index: index ^ 1 }), false);
        assert.equal(holds({ verdict: 1 }), false);
      }
    }
  });
});

test("tree heads are signed for one network", () => {
  const { tree_head: form } = goldenForms;
  const [size, timestamp] = [BigInt(form.size), BigInt(form.timestamp_ms)];
  const head = { size, root: fromHex(form.root), timestampMs: timestamp };
  assert.equal(toHex(headBytes(head, goldenForms.network)), form.bytes);
  assert.equal(operator.publicHex, goldenForms.operator);
  for (const { suffix, network } of networks) {
    const signature = form[`signature${suffix}`];
    assert.equal(toHex(operator.sign(headBytes(head, network))), signature);
    const signed = { head: { size, root: form.root, timestamp_ms: timestamp }, signature };
    for (const { network: other } of networks) {
      const keys = { network: other, operator: operator.publicKey };
      assert.equal(
        isProven(() => verifyTreeHead(signed, keys)),
        other === network,
      );
    }
  }
});
