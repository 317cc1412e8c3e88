/** The public keys of a network: the only thing that whoever verifies a proof has to trust. */

import { parse as parseToml } from "smol-toml";
import { DecodeError } from "../errors.js";
import { readFileWithin } from "../file.js";
import { fromHex, networkIdBytes } from "../hex.js";
import { type Json, parseJson } from "../json.js";
import type { Network } from "../network.js";

/** The largest file of keys that is read, in bytes: ten thousand institutions fit. */
const MAX_KEYS_BYTES = 4 << 20;
/** The most witnesses that can be asked for. */
export const MAX_WITNESSES = 255;

/** An institution and its key. */
export interface Institution {
  /** Its position in the network's configuration. */
  readonly participant: number;
  /** BIC (ISO 9362). */
  readonly bic: string;
  /** The key with which it signs approvals, and cosigns heads as a witness, 32 bytes. */
  readonly key: Uint8Array;
}

/** Whose signatures count. */
export class Keys {
  /**
   * @param network the network's id: 64 lower-case hexadecimal digits
   * @param operator the key that signs the heads of the log, 32 bytes
   * @param witnesses how many institutions have to cosign a head of the log before what it has counts, the operator not counted
   */
  constructor(
    readonly network: string,
    readonly operator: Uint8Array,
    readonly institutions: readonly Institution[],
    readonly witnesses = 0,
  ) {
    networkIdBytes(network, "$.network");
    if (!Number.isInteger(witnesses) || witnesses < 0 || witnesses > MAX_WITNESSES) {
      const problem = `0 to ${MAX_WITNESSES} witnesses can be asked for, not ${witnesses}`;
      throw new DecodeError("keys", problem, "$.witnesses");
    }
  }

  /** Reads what `tally network keys DIR` writes (TOML), or the same as JSON. */
  static parse(text: string): Keys {
    const what = "keys";
    if (text.length > MAX_KEYS_BYTES) throw new DecodeError(what, "the text is too long", 0);
    let value: Json;
    if (text.trimStart().startsWith("{")) {
      value = parseJson(text, what);
    } else {
      try {
        value = parseToml(text, { integersAsBigInt: true }) as Json;
      } catch (cause) {
        throw new DecodeError(what, `not TOML: ${cause instanceof Error ? cause.message : String(cause)}`, 0);
      }
    }
    return new KeysReader(what).keys(value);
  }

  /** Reads a file as {@link Keys.parse} does. */
  static async fromFile(path: string): Promise<Keys> {
    return Keys.parse((await readFileWithin(path, MAX_KEYS_BYTES)).toString("utf8"));
  }

  /**
   * The keys in a network's configuration, of which the first participant is the operator. They are as trustworthy as it. It does
   * not say how many witnesses to ask for.
   */
  static of(network: Network, { witnesses = 0 }: { readonly witnesses?: number } = {}): Keys {
    const institutions = network.configuration.participants.map(({ bic, key }, participant) => ({
      participant,
      bic,
      key: fromHex(key, "key", 32),
    }));
    const [operator] = institutions;
    if (operator === undefined) throw new DecodeError("keys", "the network has no participants", "$");
    return new Keys(network.id, operator.key, institutions, witnesses);
  }

  /** The institution at that position. */
  institution(participant: number): Institution | null {
    return this.institutions.find((each) => each.participant === participant) ?? null;
  }
}

class KeysReader {
  constructor(readonly what: string) {}

  keys(value: Json): Keys {
    const {
      network,
      operator,
      witnesses = 0n,
      institutions,
    } = this.#members(value, ["network", "operator", "witnesses", "institutions"], "$");
    if (typeof network !== "string") throw new DecodeError(this.what, "an id is wanted", "$.network");
    if (typeof witnesses !== "bigint") throw new DecodeError(this.what, "a number is wanted", "$.witnesses");
    if (!Array.isArray(institutions)) throw new DecodeError(this.what, "a list is wanted", "$.institutions");
    return new Keys(
      network,
      this.#key(operator, "$.operator"),
      institutions.map((each, at) => this.#institution(each, `$.institutions[${at}]`)),
      Number(witnesses),
    );
  }

  #institution(value: Json, path: string): Institution {
    const { participant, bic, key } = this.#members(value, ["participant", "bic", "key"], path);
    if (typeof participant !== "bigint" || participant < 0n || participant > 65535n) {
      throw new DecodeError(this.what, "a number of 16 bits is wanted", `${path}.participant`);
    }
    if (typeof bic !== "string") throw new DecodeError(this.what, "a BIC is wanted", `${path}.bic`);
    return { participant: Number(participant), bic, key: this.#key(key, `${path}.key`) };
  }

  #key(value: Json | undefined, path: string): Uint8Array {
    if (typeof value !== "string") throw new DecodeError(this.what, "a key is wanted", path);
    return fromHex(value, `${this.what}, ${path}`, 32);
  }

  #members<Name extends string>(
    value: Json,
    names: readonly Name[],
    path: string,
  ): { [name in Name]?: Json } {
    if (typeof value !== "object" || value === null || Array.isArray(value)) {
      throw new DecodeError(this.what, "an object is wanted", path);
    }
    const stranger = Object.keys(value).find((name) => !names.some((known) => known === name));
    if (stranger !== undefined) throw new DecodeError(this.what, `${stranger} is not known`, path);
    return value as { [name in Name]?: Json };
  }
}
