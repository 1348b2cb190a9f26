/** What a backend's answer to a call that is paid for is worth, however it is written: nobody has goods that are not sold. */
import { expect, test } from "vitest";
import { Conversation } from "../../../../src/gateway/mcp/conversation.ts";
import type { RpcId } from "../../../../src/gateway/mcp/message.ts";
import { ToolList } from "../../../../src/gateway/mcp/tool-list.ts";
import { ToolTable } from "../../../../src/gateway/mcp/tool-table.ts";
import { SentResponse } from "./sent-response.ts";

const GOODS = { content: [{ type: "text", text: "AAPL: 42" }] };

function called(id: RpcId): Conversation {
  const list = new ToolList(new ToolTable({ unpaid: "auto", telling: true, tools: [] }));
  const call = { kind: "call", id, name: "quote", asked: "00", payment: undefined } as const;
  return new Conversation({ id, call }, "document", list, { place: "/mcp", session: "" });
}

/** A call that is paid for, and what its client gets of that answer. */
async function answered(id: RpcId, type: string, body: string | Buffer) {
  const conversation = called(id);
  let refusals = 0;
  const refuse = async () => void (refusals += 1);
  const settlement = { success: true, transaction: "0x1", network: "base", payer: "0x2" } as const;
  conversation.sold({ settlement, version: 1, refuse });
  const sent = new SentResponse();
  const ended = new Promise((resolve) => sent.once("ended", resolve));
  const response = conversation.through(sent);
  response.writeHead(200, "OK", ["Content-Type", type]);
  response.end(body);
  await ended;
  return { isSold: conversation.left(true) === undefined, refusals, text: sent.text, sent };
}

const JSON_TYPE = "application/json";
const EVENTS = "text/event-stream";
const message = (id: unknown) => JSON.stringify({ jsonrpc: "2.0", id, result: GOODS });

// Readers of ids make numbers of digits, and U+FFFD of half a character: such an answer is goods all the same.
test.each<[string, RpcId, unknown]>([
  ["as it is", 7, 7],
  ["as a number", "7", 7],
  ["as a text", 7, "7"],
  ["with another character", "a\ud800", "a\ufffd"],
  ["as nothing", 7, null],
])("an answer under the id of its call %s is sold, and told under that", async (_, id, told) => {
  const document = await answered(id, JSON_TYPE, message(told));
  const events = await answered(id, EVENTS, `data: ${message(told)}\n\n`);
  for (const { isSold, refusals, text } of [document, events]) {
    expect([isSold, refusals]).toEqual([true, 0]);
    expect(JSON.parse(text.replace(/^data: /, ""))).toMatchObject({
      id,
      result: { ...GOODS, _meta: { "x402/payment-response": { success: true } } },
    });
  }
});

test("what its server asks meanwhile is no answer", async () => {
  const asked = JSON.stringify({ jsonrpc: "2.0", id: 7, method: "elicitation/create" });
  const { isSold, refusals, text } = await answered(7, EVENTS, `data: ${asked}\n\n`);
  expect([isSold, refusals, text]).toEqual([false, 1, `data: ${asked}\n\n`]);
});

test.each<[string, string, Buffer]>([
  [
    "in another coding of characters",
    `${JSON_TYPE};charset=utf-16`,
    Buffer.from(message(7), "utf16le"),
  ],
  ["of another type", "application/x-json", Buffer.from(message(7))],
  ["as several messages", JSON_TYPE, Buffer.from(`[${message(7)}]`)],
  ["as several messages of an event", EVENTS, Buffer.from(`data: [${message(7)}]\n\n`)],
])("an answer %s is not given for nothing", async (_, type, body) => {
  const { isSold, text } = await answered(7, type, body);
  expect(isSold || !text.replaceAll("\0", "").includes("AAPL: 42")).toBe(true);
});

test("of what was held, and cannot be read, nothing is given", () => {
  const body = Buffer.from(message(7), "utf16le");
  const response = { status: 200, headers: [["Content-Type", JSON_TYPE] as const], body };
  const conversation = called(7);
  conversation.judgeHeld(response);
  expect(conversation.left(true)).toMatchObject({ isBackends: true });
  const given = JSON.parse(Buffer.from(conversation.again(response).body).toString());
  expect(given).toMatchObject({ id: 7, error: { code: -32603 } });
});

test("what is held under another id is judged", () => {
  const body = Buffer.from(message("7"));
  const conversation = called(7);
  conversation.judgeHeld({ status: 200, headers: [["Content-Type", JSON_TYPE]], body });
  expect(conversation.left(true)).toBeUndefined();
});

test.each([
  [-32_603, true],
  [-32_602, false],
  // Else whoever has the tool work, and cancels, is paid back by himself.
  [-32_800, false],
])("an error of code %d is the backend's fault: %s", (code, isBackends) => {
  const error = { code, message: "no" };
  const body = Buffer.from(JSON.stringify({ jsonrpc: "2.0", id: 7, error }));
  const conversation = called(7);
  conversation.judgeHeld({ status: 200, headers: [["Content-Type", JSON_TYPE]], body });
  expect(conversation.left(true)).toMatchObject({ isBackends });
});
