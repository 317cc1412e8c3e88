// Prints the private key of a keystore file (Web3 Secret Storage, version 3).
// usage: node key.mjs KEYSTORE PASSWORD-FILE
import { readFileSync } from "node:fs";
import { Wallet } from "ethers";

const [keystore, password] = process.argv.slice(2);
const wallet = await Wallet.fromEncryptedJson(
  readFileSync(keystore, "utf8"),
  readFileSync(password, "utf8").trim(),
);
console.log(wallet.privateKey);
