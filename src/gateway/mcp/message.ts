/**
 * A JSON-RPC message to a server of tools, read once and strictly: the backend must not find another call in the same bytes
 * than is found here. What readers disagree about is refused, whatever the method: members that are there twice, or in other
 * letters, several messages at once, header lines that say something else than the body.
 */
import { hash } from "node:crypto";
import {
  foldedName,
  readMarkedBody,
  type JsonValue,
  type MarkedMember,
} from "../../pricing/json-body.ts";
import { PAYMENT_META } from "../../x402/mcp.ts";
import { parseJson } from "../../x402/json.ts";
import { mirrorFault } from "./mirrored-lines.ts";
import { looseName } from "./tool-table.ts";

/** The largest message that is read, bytes. */
export const MAX_MESSAGE_BYTES = 1024 * 1024;
/** Values in it. */
const MAX_VALUES = 65_536;
/** Longest id, characters. */
const MAX_ID = 256;

const CALL = "tools/call";
const LIST = "tools/list";
const CANCEL = "notifications/cancelled";

export type RpcId = string | number;

/** What JSON-RPC, and MCP, call what is wrong with a message. */
export const RPC_ERRORS = {
  parse: -32700,
  request: -32600,
  method: -32601,
  params: -32602,
  internal: -32603,
  /** Of revision 2026-07-28: header lines and body differ. */
  header: -32020,
  /** What a command says of a call that its client has given up. */
  cancelled: -32800,
} as const;

export interface RpcCall {
  readonly kind: "call";
  readonly id: RpcId;
  readonly name: string;
  /** Hex SHA-256 of what is asked for: the tool and all that it is given, but for what differs from try to try. */
  readonly asked: string;
  /** What is in `_meta` for a payment, as JSON; undefined: nothing. */
  readonly payment: unknown;
}

export interface RefusedMessage {
  readonly kind: "refused";
  readonly id: RpcId | null;
  readonly code: number;
  /** A sentence, without a final period. */
  readonly detail: string;
}

export type RpcMessage =
  | RpcCall
  | { readonly kind: "list"; readonly id: RpcId }
  /** That message is given up by whoever has sent it. */
  | { readonly kind: "cancel"; readonly id: null; readonly cancelled: RpcId }
  /** Anything else that is a message of JSON-RPC: nothing is sold by it. */
  | {
      readonly kind: "other";
      /** Null: it wants no answer, or is one. */
      readonly id: RpcId | null;
    }
  | RefusedMessage;

export interface ReadMessage {
  readonly message: RpcMessage;
  /** What the backend gets: the same bytes, and spaces where a payment was. */
  readonly body: Buffer;
  /** The same bytes with another id in place of the one that it has, or gives up. */
  readonly bodyUnder: (id: string) => Buffer;
}

type Members = ReadonlyMap<string, JsonValue>;

/** Members that decide what a message is: in no other letters. */
const OUTER = ["jsonrpc", "id", "method", "params", "result", "error"] as const;
const PARAMS = ["name", "arguments", "_meta", "inputresponses", "requeststate"] as const;
/** What is said again with the answers that a tool has asked for: it is one call with them. */
const ROUNDS: ReadonlySet<string> = new Set(["_meta", "inputResponses", "requestState"]);

/** A NUL may end it for one reader, and not for the other. */
const METHOD = /^[\x21-\x7e]{1,256}$/;

class Refused extends Error {
  override readonly name = "Refused";
  readonly code: number;

  constructor(code: number, detail: string) {
    super(detail);
    this.code = code;
  }
}

/** @param rawHeaders raw lines of its request */
export function readMessage(bytes: Buffer, rawHeaders: readonly string[]): ReadMessage {
  const read = readMarkedBody(bytes, { maxValues: MAX_VALUES, members: new Set(), marks: MARKS });
  const asItIs = { body: bytes, bodyUnder: () => bytes };
  if (!read.ok) return { message: refused(null, RPC_ERRORS.parse, read.error), ...asItIs };
  const { value, text, marked } = read.value;
  const [paid, named, given] = marked;
  let id: RpcId | null = null;
  try {
    const outer = outerOf(value);
    id = idOf(outer) ?? null;
    const payment = paid && parseJson(text.slice(...paid.value));
    const message = messageOf(outer, id, payment, rawHeaders);
    const blanks = paid === undefined ? [] : [blankOf(text, paid)];
    const body = blanks.length === 0 ? bytes : Buffer.from(rewritten(text, blanks));
    const at = message.kind === "cancel" ? given : named;
    if (at === undefined) return { message, body, bodyUnder: () => body };
    const bodyUnder = (other: string): Buffer => {
      return Buffer.from(rewritten(text, [...blanks, [...at.value, JSON.stringify(other)]]));
    };
    return { message, body, bodyUnder };
  } catch (cause) {
    if (!(cause instanceof Refused)) throw cause;
    return { message: refused(id, cause.code, cause.message), ...asItIs };
  }
}

/** Members whose places in the text are wanted. */
const MARKS = [["params", "_meta", PAYMENT_META], ["id"], ["params", "requestId"]] as const;

export type Edit = readonly [begin: number, end: number, put: string];

/** As many bytes. */
function blankOf(text: string, { begin, end }: MarkedMember): Edit {
  return [begin, end, " ".repeat(Buffer.byteLength(text.slice(begin, end)))];
}

/** With what is put in place of parts of it, none of which is within another. */
export function rewritten(text: string, edits: readonly Edit[]): string {
  let [told, from] = ["", 0];
  for (const [begin, end, put] of edits.toSorted(([left], [right]) => left - right)) {
    told += text.slice(from, begin) + put;
    from = end;
  }
  return told + text.slice(from);
}

function refused(id: RpcId | null, code: number, detail: string): RefusedMessage {
  return { kind: "refused", id, code, detail };
}

function outerOf(value: JsonValue): Members {
  if (Array.isArray(value)) {
    const detail = "several messages at once are not taken: send each in a request of its own";
    throw new Refused(RPC_ERRORS.request, detail);
  }
  if (!(value instanceof Map)) {
    throw new Refused(RPC_ERRORS.request, "a message is an object");
  }
  refuseOtherLetters(value, OUTER);
  return value;
}

function idOf(members: Members, name = "id"): RpcId | undefined {
  const id = members.get(name);
  if (typeof id === "string") return id.length <= MAX_ID ? id : undefined;
  const number = typeof id === "bigint" ? Number(id) : id;
  return typeof number === "number" && Number.isSafeInteger(number) ? number : undefined;
}

function messageOf(
  outer: Members,
  id: RpcId | null,
  payment: unknown,
  rawHeaders: readonly string[],
): RpcMessage {
  if (outer.get("jsonrpc") !== "2.0") {
    throw new Refused(RPC_ERRORS.request, 'jsonrpc is not "2.0"');
  }
  const isAnswer = outer.has("result") || outer.has("error");
  const method = outer.get("method");
  if (method === undefined && isAnswer) {
    refuseOtherWords(rawHeaders, { method });
    return { kind: "other", id: null };
  }
  if (typeof method !== "string" || isAnswer) {
    throw new Refused(RPC_ERRORS.request, "a message has a method, or is an answer");
  }
  const params = outer.get("params");
  const isOdd = !METHOD.test(method);
  if (isOdd || (method !== CALL && looseName(method) === CALL)) {
    throw new Refused(RPC_ERRORS.method, `a method is plain ASCII, and ${CALL} is written so`);
  }
  if (method !== CALL) {
    refuseOtherWords(rawHeaders, { method });
    if (params instanceof Map) refuseOtherLetters(params, ["_meta"]);
    return otherOf(method, id, params);
  }
  if (id === null) {
    const detail = outer.has("id")
      ? `the id of a call is a whole number or a text of at most ${MAX_ID} characters`
      : "a call without an id is none: nobody could be told what came of it";
    throw new Refused(RPC_ERRORS.request, detail);
  }
  if (!(params instanceof Map)) {
    throw new Refused(RPC_ERRORS.params, "params of a call is an object");
  }
  refuseOtherLetters(params, PARAMS);
  const [name, meta, given] = [params.get("name"), params.get("_meta"), params.get("arguments")];
  if (typeof name !== "string") throw new Refused(RPC_ERRORS.params, "name of a call is a text");
  if (given !== undefined && !(given instanceof Map)) {
    throw new Refused(RPC_ERRORS.params, "arguments of a call is an object");
  }
  if (meta !== undefined && !(meta instanceof Map)) {
    throw new Refused(RPC_ERRORS.params, "_meta is an object");
  }
  if (meta instanceof Map) refuseOtherLetters(meta, [PAYMENT_META]);
  refuseOtherWords(rawHeaders, { method, name, given });
  const asked = [...params].filter(([member]) => !ROUNDS.has(member));
  const canonical = canonicalOf(new Map(asked));
  return { kind: "call", id, name, asked: hash("sha256", canonical), payment };
}

/** What sells nothing. */
function otherOf(
  method: string,
  id: RpcId | null,
  params: JsonValue | undefined,
): Exclude<RpcMessage, RpcCall> {
  if (id !== null) return method === LIST ? { kind: "list", id } : { kind: "other", id };
  const cancelled = params instanceof Map ? idOf(params, "requestId") : undefined;
  if (method !== CANCEL || cancelled === undefined) return { kind: "other", id };
  return { kind: "cancel", id, cancelled };
}

/** Readers that look at no letter case take one of these for the other. */
function refuseOtherLetters(members: Members, names: readonly string[]): void {
  const seen = new Set<string>();
  for (const member of members.keys()) {
    // A NUL ends it for some readers.
    const [read = ""] = member.split("\0", 1);
    const folded = foldedName(read);
    if (!names.includes(folded)) continue;
    const isSpelt = names.includes(member) || ROUNDS.has(member);
    if (isSpelt && !seen.has(folded)) {
      seen.add(folded);
      continue;
    }
    throw new Refused(RPC_ERRORS.request, "a member is there twice, or in other letters");
  }
}

function refuseOtherWords(
  rawHeaders: readonly string[],
  mirrored: Parameters<typeof mirrorFault>[1],
): void {
  const fault = mirrorFault(rawHeaders, mirrored);
  if (fault !== null) throw new Refused(RPC_ERRORS.header, fault);
}

/** The same text for the same JSON, in whichever order its members stand. */
function canonicalOf(value: JsonValue): string {
  if (Array.isArray(value)) return `[${value.map(canonicalOf).join()}]`;
  if (value instanceof Map) {
    const members = [...value].toSorted(([left], [right]) => (left < right ? -1 : 1));
    return `{${members.map(([name, each]) => `${JSON.stringify(name)}:${canonicalOf(each)}`).join()}}`;
  }
  return typeof value === "bigint" ? String(value) : JSON.stringify(value);
}
