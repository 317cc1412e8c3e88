/** What the interface says of its values, and the check that a value is what it says. */

import { DecodeError } from "./errors.js";
import type { components } from "./generated/openapi.js";
import { schemas } from "./generated/schemas.js";
import type { Json } from "./json.js";

/** The values of the interface, by name. */
export type Schemas = components["schemas"];

/** As much of JSON Schema as the interface uses. */
interface Schema {
  readonly $ref?: string;
  readonly oneOf?: readonly Schema[];
  readonly type?: string | readonly string[];
  readonly enum?: readonly string[];
  readonly format?: string;
  readonly minimum?: number;
  readonly required?: readonly string[];
  readonly properties?: { readonly [name: string]: Schema };
  readonly additionalProperties?: boolean;
  readonly items?: Schema | false;
  readonly prefixItems?: readonly Schema[];
}

const REFERENCE = "#/components/schemas/";

/**
 * The value, if it is what the interface says of that name. Whole numbers of 64 bits are `bigint`, others `number`.
 * Members that the interface does not name are left out, or are an error where `strict`.
 *
 * @param what names the value in errors
 * @throws {DecodeError} when it is not
 */
export function conform<Name extends keyof Schemas>(
  name: Name,
  value: Json,
  { strict = false, what = name }: { strict?: boolean; what?: string } = {},
): Schemas[Name] {
  return new Check(what, strict).value({ $ref: REFERENCE + name }, value, "$") as Schemas[Name];
}

class Check {
  constructor(
    readonly what: string,
    readonly strict: boolean,
  ) {}

  value(schema: Schema, value: Json, path: string): unknown {
    if (schema.$ref !== undefined) return this.value(this.#named(schema.$ref, path), value, path);
    if (schema.oneOf !== undefined) return this.#oneOf(schema.oneOf, value, path);
    const type = kindOf(value);
    const types = [schema.type ?? type].flat();
    const fits = types.includes(type) || (type === "integer" && types.includes("number"));
    if (!fits) throw this.#error(`${types.join(" or ")} is wanted, this is ${type}`, path);
    if (typeof value === "string") return this.#text(schema, value, path);
    if (typeof value === "bigint") return this.#integer(schema, value, path);
    if (Array.isArray(value)) return this.#array(schema, value, path);
    if (typeof value === "object" && value !== null) return this.#object(schema, value, path);
    return value;
  }

  #named(reference: string, path: string): Schema {
    const all: { readonly [name: string]: Schema } = schemas;
    const schema = reference.startsWith(REFERENCE) ? all[reference.slice(REFERENCE.length)] : undefined;
    if (schema === undefined) throw this.#error(`${reference} is not known`, path);
    return schema;
  }

  /** The first that fits: the alternatives of the interface exclude each other, see {@link Check.#object}. */
  #oneOf(schemas: readonly Schema[], value: Json, path: string): unknown {
    let last = this.#error("no form fits", path);
    for (const schema of schemas) {
      try {
        return this.value(schema, value, path);
      } catch (error) {
        if (!(error instanceof DecodeError)) throw error;
        last = error;
      }
    }
    throw last;
  }

  #text(schema: Schema, value: string, path: string): string {
    if (schema.enum !== undefined && !schema.enum.includes(value)) {
      throw this.#error(`one of ${schema.enum.join(", ")} is wanted`, path);
    }
    return value;
  }

  #integer(schema: Schema, value: bigint, path: string): number | bigint {
    const bits = schema.format === "int64" ? 64n : 53n;
    const least = schema.minimum === undefined ? -(1n << (bits - 1n)) : BigInt(schema.minimum);
    if (value < least || value >= 1n << bits) throw this.#error("the number is out of range", path);
    return schema.format === "int64" ? value : Number(value);
  }

  #array(schema: Schema, value: readonly Json[], path: string): unknown[] {
    const { prefixItems = [], items = {} } = schema;
    if (value.length < prefixItems.length || (items === false && value.length > prefixItems.length)) {
      throw this.#error(`${prefixItems.length} items are wanted`, path);
    }
    return value.map((item, at) => this.value(prefixItems[at] ?? (items || {}), item, `${path}[${at}]`));
  }

  #object(schema: Schema, value: { readonly [name: string]: Json }, path: string): object {
    for (const name of schema.required ?? []) {
      if (!Object.hasOwn(value, name)) throw this.#error(`${name} is missing`, path);
    }
    const known = schema.properties ?? {};
    const out: { [name: string]: unknown } = {};
    for (const [name, item] of Object.entries(value)) {
      const of = Object.hasOwn(known, name) ? known[name] : undefined;
      if (of !== undefined) out[name] = this.value(of, item, `${path}.${name}`);
      else if (this.strict) throw this.#error(`${name} is not known`, path);
    }
    return out;
  }

  #error(problem: string, path: string): DecodeError {
    return new DecodeError(this.what, problem, path);
  }
}

function kindOf(value: Json): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  return typeof value === "bigint" ? "integer" : typeof value;
}
