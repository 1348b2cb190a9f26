/**
 * Under which id a backend gets a call that is priced: one of its own, that nobody can guess. Servers find the stream of an
 * answer by its id alone: of two messages of a session that share one, the later stream would get what the earlier one
 * has paid for, whichever of our processes they came through. The id of the client is in it, so that any of them finds that.
 */
import { randomBytes } from "node:crypto";
import { parseJson } from "../../x402/json.ts";
import type { RpcId } from "./message.ts";

/** Letters and digits that all readers take alike, and none for a number. */
const WIRE_ID = /^coinslot\.[A-Za-z0-9_-]{22}\.([A-Za-z0-9_-]+)$/;
const RANDOM_BYTES = 16;

export function wireId(id: RpcId): string {
  const told = Buffer.from(JSON.stringify(id)).toString("base64url");
  return `coinslot.${randomBytes(RANDOM_BYTES).toString("base64url")}.${told}`;
}

/** Undefined: it is none of ours. */
export function clientId(wire: unknown): RpcId | undefined {
  const [, told] = (typeof wire === "string" && WIRE_ID.exec(wire)) || [];
  if (told === undefined) return undefined;
  const id = parseJson(Buffer.from(told, "base64url").toString("utf8"));
  return typeof id === "string" || typeof id === "number" ? id : undefined;
}
