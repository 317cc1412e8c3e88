/** Keys: Ed25519 (RFC 8032); signatures are verified by the rules of ZIP-215, as the network does. */

import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject, sign } from "node:crypto";
import { ed25519 } from "@noble/curves/ed25519";
import { DecodeError, KeyError } from "./errors.js";
import { readFileWithin } from "./file.js";
import { fromHex, sameBytes, toHex } from "./hex.js";

/** The DER header of a PKCS#8 private key (RFC 5958, RFC 8410) before its 32 bytes. */
const PKCS8_HEADER = fromHex("302e020100300506032b657004220420");
/** The DER header of a public key (RFC 8410) before its 32 bytes. */
const SPKI_LENGTH = 44;
/** Begins a line before the key in a key file; it tells a damaged file from a whole one. */
const PUBLIC_KEY = /^public-key: ([0-9a-fA-F]{64})\r?$/m;
/** The largest file taken for a key, in bytes. */
const MAX_KEY_FILE_BYTES = 16 * 1024;

/** A private key that signs. Its bytes stay inside Node's key store; printing it shows the public key only. */
export class SigningKey {
  /** 32 bytes. */
  readonly publicKey: Uint8Array;
  readonly #key: KeyObject;

  private constructor(key: KeyObject) {
    if (key.asymmetricKeyType !== "ed25519") {
      throw new KeyError(`an Ed25519 key is wanted, this is ${key.asymmetricKeyType ?? "another"}`);
    }
    this.#key = key;
    const spki = createPublicKey(key).export({ format: "der", type: "spki" });
    this.publicKey = Uint8Array.from(spki.subarray(SPKI_LENGTH - 32));
  }

  /** A new key from the operating system's randomness. */
  static generate(): SigningKey {
    return new SigningKey(generateKeyPairSync("ed25519").privateKey);
  }

  /** The key of 32 bytes (the "private key" of RFC 8032, section 5.1.5), or of their 64 hexadecimal digits. */
  static fromSeed(seed: Uint8Array | string): SigningKey {
    let bytes: Uint8Array;
    try {
      bytes = typeof seed === "string" ? fromHex(seed, "private key", 32) : seed;
    } catch (cause) {
      throw new KeyError("a private key has 64 hexadecimal digits", { cause });
    }
    if (bytes.length !== 32) throw new KeyError(`a private key has 32 bytes, this has ${bytes.length}`);
    const der = Buffer.concat([PKCS8_HEADER, bytes]);
    return new SigningKey(createPrivateKey({ key: der, format: "der", type: "pkcs8" }));
  }

  /**
   * The key in PEM text (PKCS#8), encrypted or not. Key files of a network's directory have a line with the public key before
   * it, which must fit.
   *
   * @throws {KeyError} when the text is no such key or the passphrase is wrong
   */
  static fromPem(text: string, passphrase?: string): SigningKey {
    const begin = text.indexOf("-----BEGIN ");
    if (begin < 0) throw new KeyError("the text has no PEM block");
    let object: KeyObject;
    try {
      const key = text.slice(begin);
      object = createPrivateKey({ key, format: "pem", ...(passphrase === undefined ? {} : { passphrase }) });
    } catch (cause) {
      const hint =
        passphrase === undefined ? "; if it is encrypted, its passphrase is wanted" : " with this passphrase";
      throw new KeyError(`the private key cannot be read${hint}`, { cause });
    }
    const key = new SigningKey(object);
    const said = PUBLIC_KEY.exec(text.slice(0, begin))?.[1];
    if (said !== undefined && !sameBytes(fromHex(said), key.publicKey)) {
      throw new KeyError("the key is not the one whose public key stands before it: the file is damaged");
    }
    return key;
  }

  /** Reads a key file, such as `keys/customers/NAME.pem` of a network's directory. */
  static async fromFile(path: string, passphrase?: string): Promise<SigningKey> {
    const bytes = await readFileWithin(path, MAX_KEY_FILE_BYTES);
    try {
      return SigningKey.fromPem(bytes.toString("utf8"), passphrase);
    } catch (cause) {
      throw new KeyError(`${path}: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
    }
  }

  /** The public key, in hexadecimal. */
  get publicHex(): string {
    return toHex(this.publicKey);
  }

  /** The signature over `message`, 64 bytes; always the same for the same message (RFC 8032, section 5.1.6). */
  sign(message: Uint8Array): Uint8Array {
    return Uint8Array.from(sign(null, message, this.#key));
  }

  toString(): string {
    return `SigningKey(${this.publicHex})`;
  }
  toJSON(): string {
    return this.toString();
  }
}

/** Whether the holder of `publicKey` signed `message`, by the rules of ZIP-215. */
export function verifySignature(publicKey: Uint8Array, message: Uint8Array, signature: Uint8Array): boolean {
  if (publicKey.length !== 32 || signature.length !== 64) return false;
  try {
    return ed25519.verify(signature, message, publicKey, { zip215: true });
  } catch {
    return false;
  }
}

/** A public key from its 64 hexadecimal digits. */
export function publicKey(text: string): Uint8Array {
  try {
    return fromHex(text, "public key", 32);
  } catch (cause) {
    if (cause instanceof DecodeError) throw new KeyError("a public key has 64 hexadecimal digits", { cause });
    throw cause;
  }
}
