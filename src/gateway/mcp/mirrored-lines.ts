/**
 * Header lines that mirror a message (SEP-2243): by them proxies and backends choose a tool and what it is given. They say
 * what the message says, each once, or are not there.
 */
import type { JsonValue } from "../../pricing/json-body.ts";
import { valuesOf } from "../message/field-values.ts";

/** What a message says of what they mirror; undefined: nothing. */
interface Mirrored {
  readonly method: string | undefined;
  /** Of a call. */
  readonly name?: string;
  /** What a call is given. */
  readonly given?: JsonValue | undefined;
}

const PARAM = "mcp-param-";

/** @returns a sentence on what differs, without a final period; null: nothing does */
export function mirrorFault(
  rawHeaders: readonly string[],
  { method, name, given }: Mirrored,
): string | null {
  const methods = valuesOf(rawHeaders, "mcp-method");
  if (methods.length > 1 || methods.some((each) => method !== undefined && each !== method)) {
    return "Mcp-Method is not the method of the message";
  }
  if (methods.length === 1 && method === undefined) {
    return "Mcp-Method is there beside an answer, or without a message";
  }
  const names = valuesOf(rawHeaders, "mcp-name");
  if (names.length > 1 || (name !== undefined && names.some((each) => wordOf(each) !== name))) {
    return "Mcp-Name is not the name in the message";
  }
  const params = paramsOf(rawHeaders);
  if (params === null) return "a line of Mcp-Param is there twice";
  if (params.size > 0 && name === undefined) return "a line of Mcp-Param is there without a call";
  const isTold = [...params].every(([param, value]) => isIn(given, param, wordOf(value)));
  return isTold ? null : "a line of Mcp-Param is none of the arguments in the message";
}

/** By what follows in their names, in small letters; null: one is there twice. */
function paramsOf(rawHeaders: readonly string[]): ReadonlyMap<string, string> | null {
  const found = new Map<string, string>();
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = (rawHeaders[index] ?? "").toLowerCase();
    if (!name.startsWith(PARAM)) continue;
    if (found.has(name)) return null;
    found.set(name, rawHeaders[index + 1] ?? "");
  }
  return new Map([...found].map(([name, value]) => [name.slice(PARAM.length), value]));
}

/**
 * Whether it is the argument of that name; where none has it, any: what a line is called is said in the schema of its
 * tool, which only its server knows.
 */
function isIn(given: JsonValue | undefined, param: string, value: string): boolean {
  if (!(given instanceof Map)) return false;
  const named = [...given].filter(([name]) => name.toLowerCase() === param);
  if (named.length > 0) return named.some(([, each]) => holds(each, value));
  return holds(given, value);
}

/** Whether it is that text, number or word, or such a member of an object: none of a list is mirrored. */
function holds(given: JsonValue, value: string): boolean {
  if (given instanceof Map) return [...given.values()].some((each) => holds(each, value));
  return given !== null && typeof given !== "object" && String(given) === value;
}

/** The value of such a line: what is not plain ASCII is in base64. */
function wordOf(value: string): string {
  const [, encoded] = /^=\?base64\?([A-Za-z0-9+/]*={0,2})\?=$/.exec(value) ?? [];
  return encoded === undefined ? value : Buffer.from(encoded, "base64").toString("utf8");
}
