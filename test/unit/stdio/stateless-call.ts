/** A call to a command by the revision that has no sessions (2026-07-28): a list of its tools. */
import type { CommandHouse } from "../../../src/stdio/command-house.ts";

/** @param meta more of the message's `_meta` */
export function listTools(house: CommandHouse, meta: object = {}): Promise<Response> {
  const headers = {
    "Content-Type": "application/json",
    Accept: "application/json, text/event-stream",
    "MCP-Protocol-Version": "2026-07-28",
    "Mcp-Method": "tools/list",
  };
  const request = new Request("http://command.invalid/", { method: "POST", headers });
  const _meta = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": { name: "stranger", version: "1" },
    "io.modelcontextprotocol/clientCapabilities": {},
    ...meta,
  };
  const body = { jsonrpc: "2.0", id: 1, method: "tools/list", params: { _meta } };
  return house.handle(request, { body, address: "203.0.113.1" }, () => {});
}
