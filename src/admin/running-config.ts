/** The configuration in force as an operator reads it: complete, with every default, and without its secrets. */
import type { Config } from "../config/config.ts";
import { maskText } from "../config/reading/mask.ts";

/**
 * JSON of what the file has come to. Keys and tokens are values that tell nothing of themselves; what has the look of
 * one nevertheless, or stands before the host of a URL, is masked wherever it is.
 */
export function runningConfig(config: Config): string {
  return `${JSON.stringify(config, readable, 2)}\n`;
}

function readable(_key: string, value: unknown): unknown {
  if (typeof value === "string") return maskText(value);
  if (typeof value === "bigint") return String(value);
  if (value instanceof Set) return [...value];
  return value instanceof Map ? Object.fromEntries(value) : value;
}
