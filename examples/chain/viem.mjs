// Deploys the token with viem, transfers, reads logs, and subscribes to new heads.
// usage: node viem.mjs HTTP-URL WS-URL PRIVATE-KEY
import assert from "node:assert/strict";
import { createPublicClient, createWalletClient, defineChain, http, parseAbiItem, webSocket } from "viem";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import { abi, bytecode } from "./contract.mjs";

const [url, ws, key] = process.argv.slice(2);
const account = privateKeyToAccount(key);
const id = await createPublicClient({ transport: http(url) }).getChainId();
const chain = defineChain({
  id,
  name: "tallystick",
  nativeCurrency: { name: "Ether", symbol: "ETH", decimals: 18 },
  rpcUrls: { default: { http: [url], webSocket: [ws] } },
});
const reader = createPublicClient({ chain, transport: http(url), pollingInterval: 100 });
const wallet = createWalletClient({ account, chain, transport: http(url) });
const socket = createPublicClient({ chain, transport: webSocket(ws) });

const heads = [];
const stop = socket.watchBlocks({ onBlock: (block) => heads.push(block.number) });

const deployment = await reader.waitForTransactionReceipt({
  hash: await wallet.deployContract({ abi, bytecode, args: [500_00n] }),
});
const address = deployment.contractAddress;
console.log(`viem: token deployed at ${address} in block ${deployment.blockNumber}`);

const payee = privateKeyToAccount(generatePrivateKey()).address;
const { request } = await reader.simulateContract({ account, address, abi, functionName: "transfer", args: [payee, 40_00n] });
const receipt = await reader.waitForTransactionReceipt({ hash: await wallet.writeContract(request) });
assert.equal(receipt.status, "success");
assert.equal(await reader.readContract({ address, abi, functionName: "balanceOf", args: [payee] }), 40_00n);
console.log(`viem: 40.00 to ${payee} in block ${receipt.blockNumber}`);

const logs = await reader.getLogs({
  address,
  event: parseAbiItem("event Transfer(address indexed from, address indexed to, uint256 value)"),
  args: { to: payee },
  fromBlock: 0n,
});
assert.equal(logs.length, 1);
assert.equal(logs[0].args.value, 40_00n);
console.log(`viem: its log: Transfer ${logs[0].args.value} in block ${logs[0].blockNumber}`);

await assert.rejects(
  reader.simulateContract({ account, address, abi, functionName: "transfer", args: [payee, 1_000_000_00n] }),
  /InsufficientBalance/,
);
console.log("viem: a transfer of more than there is reverts with InsufficientBalance");

while (heads.length < 2) await new Promise((next) => setTimeout(next, 50));
console.log(`viem: new heads over WebSocket: ${heads.join(", ")}`);
stop();
process.exit(0);
