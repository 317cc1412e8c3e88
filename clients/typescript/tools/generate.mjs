// Makes src/generated from an OpenAPI document: node tools/generate.mjs openapi.json
// With --check: ends with 1 when what is there is not what the document makes.
import { readFile, writeFile } from "node:fs/promises";
import openapi, { astToString } from "openapi-typescript";
import ts from "typescript";

const check = process.argv.includes("--check");
const [source] = process.argv.slice(2).filter((argument) => argument !== "--check");
if (source === undefined) throw new Error("usage: node tools/generate.mjs [--check] openapi.json");
const document = JSON.parse(await readFile(source, "utf8"));
const HEAD = "// Made from the gateway's OpenAPI document by tools/generate.mjs; not written by hand.\n\n";

// 64-bit integers do not fit JavaScript's numbers.
const BIGINT = ts.factory.createKeywordTypeNode(ts.SyntaxKind.BigIntKeyword);
const NULL = ts.factory.createLiteralTypeNode(ts.factory.createNull());
function transform(schema) {
  if (schema.format !== "int64") return undefined;
  return [schema.type].flat().includes("null") ? ts.factory.createUnionTypeNode([BIGINT, NULL]) : BIGINT;
}
const forms = { ...structuredClone(document), paths: {} };
const types = astToString(await openapi(forms, { transform, alphabetize: true }));

// What answers are checked against: the schemas without what only people read.
function bare(value, isProperties = false) {
  if (Array.isArray(value)) return value.map((item) => bare(item));
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).filter(([name]) => isProperties || name !== "description");
  return Object.fromEntries(
    entries.map(([name, item]) => [name, bare(item, !isProperties && name === "properties")]),
  );
}
const named = Object.entries(document.components.schemas).sort(([a], [b]) => (a < b ? -1 : 1));
const lines = named.map(([name, schema]) => `  ${name}: ${JSON.stringify(bare(schema))},`);
const schemas = `export const schemas = {\n${lines.join("\n")}\n} as const;\n`;

let stale = false;
for (const [name, text] of [
  ["openapi.ts", HEAD + types],
  ["schemas.ts", HEAD + schemas],
]) {
  const path = new URL(`../src/generated/${name}`, import.meta.url);
  if (!check) {
    await writeFile(path, text);
  } else if ((await readFile(path, "utf8").catch(() => "")) !== text) {
    console.error(
      `src/generated/${name} is not what the document makes: run node tools/generate.mjs openapi.json`,
    );
    stale = true;
  }
}
process.exitCode = stale ? 1 : 0;
