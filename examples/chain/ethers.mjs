// Deploys the token with ethers, transfers, reads balances and logs, and prints the contract's address.
// usage: node ethers.mjs HTTP-URL WS-URL PRIVATE-KEY
import assert from "node:assert/strict";
import { Contract, ContractFactory, JsonRpcProvider, Wallet, WebSocketProvider, id } from "ethers";
import { abi, bytecode } from "./contract.mjs";

const [http, ws, key] = process.argv.slice(2);
const provider = new JsonRpcProvider(http, undefined, { pollingInterval: 100 });
const wallet = new Wallet(key, provider);

const socket = new WebSocketProvider(ws);
const heads = [];
await socket.on("block", (number) => heads.push(number));

const factory = new ContractFactory(abi, bytecode, wallet);
const deployed = await factory.deploy(1_000_000_00n);
await deployed.waitForDeployment();
const address = await deployed.getAddress();
console.log(`ethers: token deployed at ${address}`);

const token = new Contract(address, abi, wallet);
const payee = Wallet.createRandom().address;
const receipt = await (await token.transfer(payee, 250_00n)).wait();
assert.equal(receipt.status, 1);
assert.equal(await token.balanceOf(payee), 250_00n);
assert.equal(await token.balanceOf(wallet.address), 999_750_00n);
console.log(`ethers: 250.00 to ${payee} in block ${receipt.blockNumber}, ${receipt.gasUsed} gas`);

const transfers = await token.queryFilter(token.filters.Transfer(wallet.address, payee), 0);
assert.equal(transfers.length, 1);
assert.equal(transfers[0].args.value, 250_00n);
console.log(`ethers: its log: Transfer ${transfers[0].args.value} in block ${transfers[0].blockNumber}`);

const document = id("a document");
await (await token.register(document, wallet.address)).wait();
assert.equal(await token.registered(document), wallet.address);
await assert.rejects(token.register.staticCall(document, payee), (error) => error.revert?.name === "AlreadyRegistered");
console.log("ethers: a document registered; a second registration reverts with AlreadyRegistered");

while (heads.length < 2) await new Promise((next) => setTimeout(next, 50));
assert.ok(heads.every((number, at) => at === 0 || number > heads[at - 1]));
console.log(`ethers: new heads over WebSocket: ${heads.join(", ")}`);
await socket.destroy();
provider.destroy();
