/** Goods go by the ids of messages: of two of one id in one session the official server answers the later stream alone. */
import { randomBytes } from "node:crypto";
import type { RequestListener } from "node:http";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, expect, test } from "vitest";
import { PURSE, present, richBuyer, sign } from "../../support/buyer.ts";
import { startChain, type Chain } from "../../support/chain.ts";
import { startGateway } from "../../support/gateway.ts";
import { wireId } from "../../../src/gateway/mcp/wire-id.ts";
import { connectSdk } from "../../support/mcp/clients.ts";
import { McpBuyer } from "../../support/mcp/paying.ts";
import { McpStage } from "../../support/mcp/stage.ts";
import { beginSession, callOf, message, payFor, PLAIN } from "../../support/mcp/thief.ts";

let chain: Chain;

beforeAll(async () => {
  chain = await startChain();
});
afterAll(() => chain[Symbol.asyncDispose]());

test("what is paid for comes in no other stream of its session", async () => {
  await using stage = await McpStage.open();
  const routes = "{ /mcp: { tools: { hold: $0.02, test_tool_with_progress: free } } }";
  await using gateway = await startGateway({ chain, upstreamUrl: stage.origin, routes });
  const url = `${gateway.url}/mcp`;
  const session = await beginSession(url);
  const call = (name: string) => callOf(session, name);
  const account = await richBuyer(chain);
  const paid = payFor(url, call("hold"), account);
  await expect.poll(() => stage.workshop.count("hold")).toBe(1);

  const list = await fetch(url, message({ id: 7, method: "tools/list" }, session));
  expect(await list.text()).toContain('"id":7');
  // And whoever knows what calls are named like behind us names none so.
  const named = { name: "test_tool_with_progress", arguments: {} };
  const guess = { id: wireId(7), method: "tools/call", params: named };
  expect(await (await fetch(url, message(guess, session))).text()).toContain(guess.id);
  // Slower than what is paid for: its stream is there when that is answered.
  const free = fetch(url, call("test_tool_with_progress"));
  await expect.poll(() => stage.workshop.count("test_tool_with_progress")).toBe(2);
  stage.workshop.release();
  expect(await (await free).text()).not.toContain("released");
  const { text, receipt } = await paid;
  expect([text.includes("released"), receipt]).toMatchObject([true, { success: true }]);
  expect(await chain.balanceOf(account.address)).toBe(PURSE - 20_000n);
});

test("a call that is given up is, by the id that its client knows, and a stream that is taken up again has that", async () => {
  await using stage = await McpStage.open();
  const routes = "{ /mcp: { tools: { hold: $0.02, cut: $0.02 } } }";
  await using gateway = await startGateway({ chain, upstreamUrl: stage.origin, routes });
  await using client = await connectSdk(`${gateway.url}/mcp`);
  const buyer = McpBuyer.onEvm(client, await richBuyer(chain));
  const leaving = new AbortController();
  const given = buyer.buy("hold", {}, { signal: leaving.signal }).catch(() => "given up");
  await stage.workshop.until(() => stage.workshop.count("hold") === 1);
  leaving.abort();
  expect(await given).toBe("given up");
  await stage.workshop.until(() => stage.workshop.cancelled === 1);
  // Answered once its stream is taken up again.
  stage.onRequest = (method, headers) => {
    if (method === "GET" && headers["last-event-id"] !== undefined) stage.workshop.release();
  };
  expect((await buyer.buy("cut")).result).toMatchObject({ content: [{ text: "resumed" }] });
  // The gateway waits for what was given up as long as for any answer: its server is not there any more.
  await stage[Symbol.asyncDispose]();
});

test("an answer of more than is read, or packed, has the id that its client knows", async () => {
  const pack = new Map<string, (body: string) => Buffer>([
    ["", (body) => Buffer.from(body)],
    ["gzip", (body) => gzipSync(body)],
  ]);
  for (const [coding, packed] of pack) {
    for (const length of [10, 3_000_000]) {
      const backend: RequestListener = (request, response) => {
        const parts: Buffer[] = [];
        request.on("data", (part: Buffer) => parts.push(part));
        request.on("end", () => {
          const { id } = JSON.parse(Buffer.concat(parts).toString());
          const result = { content: [{ type: "text", text: randomBytes(length).toString("hex") }] };
          const head = { "Content-Type": "application/json", "Content-Encoding": coding };
          const body = packed(JSON.stringify({ jsonrpc: "2.0", result, id }));
          response.writeHead(200, coding === "" ? { "Content-Type": "application/json" } : head);
          response.end(body);
        });
      };
      const routes = "{ /mcp: { tools: { quote: $0.02 } } }";
      await using gateway = await startGateway({ chain, backend, routes });
      const url = `${gateway.url}/mcp`;
      const account = await richBuyer(chain);
      const init = message({ id: "mine", method: "tools/call", params: { name: "quote" } }, PLAIN);
      const shown = { ...PLAIN, Accept: "application/json" };
      const header = await sign(account, url, { init: { ...init, headers: shown } });
      const { text, receipt } = await present(url, header, init);
      const told = JSON.parse(text);
      expect([told.id, receipt?.success]).toEqual(["mine", true]);
      // What is packed and too large to be unpacked cannot be read, so it is not sold.
      const isTooLarge = coding !== "" && length > 1_000_000;
      expect([told.error?.code, told.result?.content[0].text.length]).toEqual(
        isTooLarge ? [-32_603, undefined] : [undefined, 2 * length],
      );
    }
  }
});
