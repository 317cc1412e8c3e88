// Compiles Token.sol with solc and gives its interface and code.
import { readFileSync } from "node:fs";
import solc from "solc";

const source = readFileSync(new URL("Token.sol", import.meta.url), "utf8");
const answer = JSON.parse(
  solc.compile(
    JSON.stringify({
      language: "Solidity",
      sources: { "Token.sol": { content: source } },
      settings: {
        // The fork of networks that `tally chain init` makes; solc's own default may be newer.
        evmVersion: "prague",
        optimizer: { enabled: true, runs: 200 },
        outputSelection: { "*": { "*": ["abi", "evm.bytecode.object"] } },
      },
    }),
  ),
);
for (const problem of answer.errors ?? []) {
  if (problem.severity === "error") throw new Error(problem.formattedMessage);
}
const compiled = answer.contracts["Token.sol"].Token;
export const abi = compiled.abi;
export const bytecode = `0x${compiled.evm.bytecode.object}`;
