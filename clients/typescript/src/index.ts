/** Client of Tallystick gateways: pays, opens accounts and verifies proofs without trusting the gateway. */

export { type AccountRole, accountRole, issuanceAccount, ownAccount, settlementAccount } from "./account.js";
export type { AccountReference, AssetReference, NewAccount } from "./accounts.js";
export { formatAmount, MAX_AMOUNT, parseAmount } from "./amount.js";
export { decodeBatch, decodeOne, encodeBatch, encodeOne } from "./batch.js";
export { type Days, type StatementOptions, Tallystick, type TallystickOptions } from "./client.js";
export { checkDraft, type NamedAccount, type Wanted } from "./draft.js";
export * from "./errors.js";
export type { EventsOptions, OutcomeEvent } from "./events.js";
export { FileError } from "./file.js";
export { fromHex, toHex } from "./hex.js";
export { formatJson, type Json, parseJson } from "./json.js";
export { publicKey, SigningKey, verifySignature } from "./key.js";
export type { MessagePayment } from "./messages.js";
export { type AccountId, Network } from "./network.js";
export { type AccountAction, type AccountOrder, encodeOrder, orderHash } from "./order.js";
export type { Party, Payment, PaymentOptions } from "./payments.js";
export {
  type LogKeys,
  type TreeHead,
  verifyConsistencyProof,
  verifyTreeHead,
  type WitnessedHeads,
} from "./proof/head.js";
export { type Institution, Keys } from "./proof/keys.js";
export {
  type Answered,
  formatProof,
  type Proof,
  parseProof,
  readProof,
  type Verified,
  verifyProof,
} from "./proof/proof.js";
export { verifyReceipt } from "./proof/receipt.js";
export { verifyCosignatures, type Witness, type WitnessOptions } from "./proof/witness.js";
export { type Refusal, refusal } from "./refusal.js";
export type { Schemas } from "./schema.js";
export {
  KIND,
  type Leg,
  newOrder,
  newTransaction,
  participantsOf,
  type Signer,
  sign,
  type Terms,
  type Transaction,
  transactionId,
} from "./transaction.js";
export type { TransportOptions } from "./transport.js";
export { newUetr } from "./uetr.js";
