/**
 * Names and values of header lines as RFC 9110 section 5 has them, for what is written and what is read.
 * Whatever is outside this grammar is refused, not repaired.
 */

const TOKEN = /^[\w!#$%&'*+.^`|~-]+$/;
/** Controls, and what is no byte at all: it would be cut to another character as it is written. */
const NEVER_IN_VALUE = /[^\t\x20-\x7e\x80-\xff]/;

/** Names that have a meaning for the connection; all others are `plain`. */
export type FieldKind =
  | "plain"
  | "connection"
  | "content-length"
  | "host"
  | "keep-alive"
  | "transfer-encoding"
  | "upgrade";

const KINDS: ReadonlyMap<string, FieldKind> = new Map(
  (
    ["connection", "content-length", "host", "keep-alive", "transfer-encoding", "upgrade"] as const
  ).map((name) => [name, name]),
);

export interface FieldName {
  /** As it was spelled. */
  readonly text: string;
  readonly kind: FieldKind;
}

/** Spellings remembered: the few that make up almost all traffic. */
const MAX_KNOWN_NAMES = 1024;
const MAX_KNOWN_NAME_LENGTH = 64;

const known = new Map<string, FieldName>();

/** Null when it is no name. */
export function fieldName(text: string): FieldName | null {
  const found = known.get(text);
  if (found !== undefined) return found;
  if (!TOKEN.test(text)) return null;
  const kind = KINDS.get(text.toLowerCase()) ?? "plain";
  if (known.size >= MAX_KNOWN_NAMES || text.length > MAX_KNOWN_NAME_LENGTH) return { text, kind };
  // A copy: a slice would keep the whole head that it was cut from.
  const name = { text: Buffer.from(text, "latin1").toString("latin1"), kind };
  known.set(name.text, name);
  return name;
}

/** Also of a reason phrase, which has the same characters. */
export function isFieldValue(text: string): boolean {
  return !NEVER_IN_VALUE.test(text);
}
