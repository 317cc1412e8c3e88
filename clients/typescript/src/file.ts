/** Files of a bounded size. */

import { open } from "node:fs/promises";
import { TallystickError } from "./errors.js";

/** A file cannot be read, or is longer than what it should be can be. */
export class FileError extends TallystickError {}

/** The bytes of a file, of which no more than `limit` and one are read. */
export async function readFileWithin(path: string, limit: number): Promise<Buffer> {
  try {
    const file = await open(path, "r");
    try {
      const buffer = Buffer.alloc(limit + 1);
      let length = 0;
      while (length <= limit) {
        const { bytesRead } = await file.read(buffer, length, limit + 1 - length, null);
        if (bytesRead === 0) return buffer.subarray(0, length);
        length += bytesRead;
      }
    } finally {
      await file.close();
    }
  } catch (cause) {
    throw new FileError(`cannot read ${path}`, { cause });
  }
  throw new FileError(`${path} has more than ${limit} bytes`);
}
