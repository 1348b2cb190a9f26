/** A session that is spoken without a library, as a thief would: two calls of one id in it, one of them paid. */
import { present, sign } from "../buyer.ts";
import type { FreshAccount } from "../payer.ts";

export const PLAIN = {
  "Content-Type": "application/json",
  Accept: "application/json, text/event-stream",
};

/** What `fetch` is given for a message. */
export function message(told: object, headers: Readonly<Record<string, string>>) {
  return { method: "POST", headers, body: JSON.stringify({ jsonrpc: "2.0", ...told }) };
}

/** The header lines of a session that has begun at that URL. */
export async function beginSession(url: string): Promise<Readonly<Record<string, string>>> {
  const clientInfo = { name: "thief", version: "1" };
  const params = { protocolVersion: "2025-06-18", capabilities: {}, clientInfo };
  const begun = await fetch(url, message({ id: 1, method: "initialize", params }, PLAIN));
  await begun.text();
  const session = { ...PLAIN, "Mcp-Session-Id": begun.headers.get("mcp-session-id") ?? "" };
  await fetch(url, message({ method: "notifications/initialized" }, session));
  return session;
}

/** A call in it, each with the same id, 7. */
export function callOf(session: Readonly<Record<string, string>>, name: string) {
  const asked = { name, arguments: {}, _meta: { progressToken: name } };
  return message({ id: 7, method: "tools/call", params: asked }, session);
}

/** The same call, paid for; what is answered. */
export async function payFor(
  url: string,
  call: ReturnType<typeof message>,
  account: FreshAccount,
): ReturnType<typeof present> {
  const headers = { ...call.headers, Accept: "application/json" };
  return present(url, await sign(account, url, { init: { ...call, headers } }), call);
}
