/** Payment messages of ISO 20022: prepared by the gateway, checked against what their sender says is in them, signed. */

import { encodeOne } from "./batch.js";
import { checkDraft } from "./draft.js";
import { ArgumentError, DraftError } from "./errors.js";
import { formatJson } from "./json.js";
import type { SigningKey } from "./key.js";
import type { Network } from "./network.js";
import { amountOf, named, type Party } from "./payments.js";
import type { Schemas } from "./schema.js";
import type { Session } from "./session.js";
import { sign } from "./transaction.js";

/** A payment of a message, as its sender knows it. */
export interface MessagePayment {
  readonly from: Party;
  readonly to: Party;
  /** A decimal as text, such as `"12.34"`. */
  readonly amount: string;
  /** Code of the asset. */
  readonly asset: string;
  /** The payer's key. */
  readonly key: SigningKey;
  /** The reference in the message. Without it that of the draft is taken, which the gateway derives from the message. */
  readonly uetr?: string;
}

/** Has the gateway read a pain.001, pacs.008 or pacs.009, and prepare its payments. */
export async function prepareMessage(
  session: Session,
  xml: string | Uint8Array,
): Promise<Schemas["PreparedBody"]> {
  const body = { type: "application/xml", content: xml };
  return session.transport.json("PreparedBody", {
    method: "POST",
    path: ["v1", "iso20022", "prepare"],
    body,
  });
}

/**
 * Sends a payment message: has the gateway prepare it, checks that each draft is the payment that its sender says, signs and
 * hands it in. Returns the status report (pacs.002 or pain.002) as XML; what is refused is told there.
 *
 * @param payments the message's payments, in its order
 * @throws {DraftError} when the gateway prepared something else; then nothing was signed
 */
export async function submitMessage(
  session: Session,
  xml: string | Uint8Array,
  payments: readonly MessagePayment[],
): Promise<string> {
  const network = await session.network();
  const prepared = await prepareMessage(session, xml);
  const isRefused = prepared.refused !== undefined && prepared.refused !== null;
  if (!isRefused && prepared.payments.length !== payments.length) {
    throw new DraftError("form", `${prepared.payments.length} payments were prepared of ${payments.length}`);
  }
  const signed = prepared.payments.flatMap(({ draft, uetr }, position) => {
    if (!draft) return [];
    const payment = payments[position];
    if (payment === undefined) throw new ArgumentError(`payment ${position} of the message is not described`);
    const transaction = checkDraft(network, draft, wantedOf(network, payment, uetr));
    return [{ position, transaction: encodeOne(sign(transaction, payment.key)) }];
  });
  const message = Buffer.from(xml).toString("base64");
  const body = { type: "application/json", content: formatJson({ message, signed }) };
  const path = ["v1", "iso20022", "submit"];
  return (await session.transport.text({ method: "POST", path, body })).text;
}

function wantedOf(network: Network, payment: MessagePayment, uetr: string) {
  return {
    from: named(network, payment.from),
    to: named(network, payment.to),
    amount: amountOf(network, payment.amount, payment.asset),
    asset: payment.asset,
    uetr: payment.uetr ?? uetr,
    // The gateway hashes what it read of the message.
    details: null,
    signers: [payment.key.publicKey],
  };
}
