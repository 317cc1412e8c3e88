/** Opens two accounts, pays from one to the other and verifies the proof: node pay.js URL DIRECTORY KEYS */

import { readFile, writeFile } from "node:fs/promises";
import {
  formatProof,
  KIND,
  Keys,
  newTransaction,
  parseAmount,
  readProof,
  SigningKey,
  sign,
  Tallystick,
  verifyProof,
} from "tallystick";

const [url, directory, keyFile] = process.argv.slice(2);
if (url === undefined || directory === undefined || keyFile === undefined) {
  throw new Error("usage: node pay.js URL DIRECTORY KEYS");
}
const file = (name: string) => readFile(`${directory}/${name}`, "utf8");

// Whose signatures count: from the operator's publication, not from the gateway.
const keys = await Keys.fromFile(keyFile);
const client = new Tallystick(url, { token: await file("token"), ca: await file("tls/ca.pem"), keys });

// Each institution signs the orders for its books; the owners' keys are made here.
const passphrase = (await file("passphrase")).trim();
const bank = (bic: string) => SigningKey.fromFile(`${directory}/keys/institutions/${bic}.pem`, passphrase);
const anna = SigningKey.generate();
const run = Date.now();
const from = await client.openAccount(
  { institution: "ALPHDEFF", alias: `anna-${run}`, asset: "EUR", owner: anna, floor: "-100.00" },
  await bank("ALPHDEFF"),
);
const to = await client.openAccount(
  { institution: "BETAFRPP", alias: `bruno-${run}`, asset: "EUR", owner: SigningKey.generate() },
  await bank("BETAFRPP"),
);
console.log(`opened   ${from.institution}/${from.alias} and ${to.institution}/${to.alias}`);

const network = await client.configuration();
const legs = network.paymentLegs(
  { participant: network.participant("ALPHDEFF"), number: from.number },
  { participant: network.participant("BETAFRPP"), number: to.number },
  "EUR",
  parseAmount("12.34", network.asset("EUR").exponent),
);
const [outcome] = await client.submit([
  sign(newTransaction(KIND.transfer, await client.terms(), legs), anna),
]);
if (outcome === undefined) throw new Error("no outcome");
console.log(
  `paid     12.34 EUR: ${outcome.status}, ${outcome.uetr}, number ${outcome.sequence} in the global order`,
);
for await (const entry of client.statement("BETAFRPP", `bruno-${run}`)) {
  console.log(`entry    ${entry.time} ${entry.amount}, then ${entry.balance}`);
}

// By the id of what was signed: another transaction may have had the same UETR before.
const proof = await client.proof(outcome.id, { legs: ["ALPHDEFF", "BETAFRPP"] });
await writeFile("proof.json", formatProof(proof));
client.close();

// From here on without any network.
const proven = verifyProof(await readProof("proof.json"), keys);
const when = new Date(Number(proven.timestampMs)).toISOString();
console.log(
  `proven   ${proven.refusal === null ? "settled" : "refused"} at ${when}, number ${proven.sequence}`,
);
console.log(`approved by ${proven.answers.map(({ bic }) => bic).join(", ")}`);
for (const { leg } of proven.legs) {
  console.log(
    `leg      ${keys.institution(leg.participant)?.bic} account ${leg.account}: ${leg.amount} minor units`,
  );
}
console.log(`hidden   ${proven.hiddenLegs} legs`);
