/**
 * An answer of JSON-RPC under another id, and with a receipt, in which all else stands as its server has written it: what
 * is sold may have numbers that no double is, and spellings that mean something to its buyer.
 */
import { isRecord, parseJson } from "../../x402/json.ts";
import { rewritten, type Edit } from "./message.ts";

const SPACE = /[ \t\n\r]*/y;
const WORD = /[^\s,\]}]+/y;
/** Codes of marks: that which opens, and how far it is to what closes. */
const [QUOTE, BRACE, BRACKET, CLOSES] = [0x22, 0x7b, 0x5b, 2];

/** Indices of characters. */
type Span = readonly [begin: number, end: number];

/** What is put into the answer. */
export interface Receipted {
  /** As it is written in JSON. */
  readonly id: string;
  /** Of the `_meta` of its result; null: nothing. */
  readonly receipt: { readonly name: string; readonly value: object } | null;
}

/**
 * @param text JSON of an object
 * @returns null where readers disagree about what it says: a member is there twice
 */
export function receiptedText(text: string, { id, receipt }: Receipted): string | null {
  const outer = membersOf(text, behind(SPACE, text, 0));
  if (outer === null) return null;
  const edits: Edit[] = [putAt(outer, "id", id)];
  const result = outer.members.get("result");
  if (receipt !== null && result !== undefined && text[result[0]] === "{") {
    const sold = membersOf(text, result[0]);
    if (sold === null) return null;
    const meta = sold.members.get("_meta");
    const told = meta && parseJson(text.slice(...meta));
    const value = { ...(isRecord(told) && told), [receipt.name]: receipt.value };
    edits.push(putAt(sold, "_meta", JSON.stringify(value)));
  }
  return rewritten(text, edits);
}

interface ObjectText {
  /** Of the values. */
  readonly members: ReadonlyMap<string, Span>;
  /** Behind its brace. */
  readonly begin: number;
}

/** In place of a member's value, or as the first member. */
function putAt({ members, begin }: ObjectText, name: string, value: string): Edit {
  const at = members.get(name);
  if (at !== undefined) return [...at, value];
  return [begin, begin, `"${name}":${value}${members.size === 0 ? "" : ","}`];
}

function membersOf(text: string, brace: number): ObjectText | null {
  const members = new Map<string, Span>();
  const begin = brace + 1;
  let at = behind(SPACE, text, begin);
  while (text[at] !== "}") {
    const named = behindString(text, at);
    const name = String(JSON.parse(text.slice(at, named)));
    const from = behind(SPACE, text, behind(SPACE, text, named) + 1);
    const to = behindValue(text, from);
    if (members.has(name)) return null;
    members.set(name, [from, to]);
    at = behind(SPACE, text, to);
    if (text[at] === ",") at = behind(SPACE, text, at + 1);
  }
  return { members, begin };
}

function behindValue(text: string, at: number): number {
  const first = text[at];
  if (first === '"') return behindString(text, at);
  if (first !== "{" && first !== "[") return behind(WORD, text, at);
  let depth = 0;
  for (let next = at; next < text.length; next += 1) {
    const mark = text.charCodeAt(next);
    if (mark === QUOTE) next = behindString(text, next) - 1;
    else if (mark === BRACE || mark === BRACKET) depth += 1;
    else if (mark === BRACE + CLOSES || mark === BRACKET + CLOSES) {
      depth -= 1;
      if (depth === 0) return next + 1;
    }
  }
  return text.length;
}

function behindString(text: string, quote: number): number {
  let end = quote;
  do end = text.indexOf('"', end + 1);
  while (isEscaped(text, end));
  return end + 1;
}

function isEscaped(text: string, quote: number): boolean {
  let slash = quote;
  while (text[slash - 1] === "\\") slash -= 1;
  return (quote - slash) % 2 === 1;
}

function behind(pattern: RegExp, text: string, at: number): number {
  pattern.lastIndex = at;
  pattern.exec(text);
  return pattern.lastIndex;
}
