/** What a backend's answer to a call that is paid for is worth, however it is written: nobody has goods that are not sold. */
import { randomBytes } from "node:crypto";
import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import { expect, test } from "vitest";
import { Conversation } from "../../../../src/gateway/mcp/conversation.ts";
import type { RpcId } from "../../../../src/gateway/mcp/message.ts";
import { ToolList } from "../../../../src/gateway/mcp/tool-list.ts";
import { ToolTable } from "../../../../src/gateway/mcp/tool-table.ts";
import { wireId } from "../../../../src/gateway/mcp/wire-id.ts";
import { SentResponse } from "./sent-response.ts";

const GOODS = { content: [{ type: "text", text: "AAPL: 42" }] };

const LIST = new ToolList(new ToolTable({ unpaid: "auto", telling: true, tools: [] }));
const PLACE = { place: "/mcp", session: "" };
/** What its backend calls it. */
const WIRE = wireId(7);

function called(id: RpcId): Conversation {
  const call = { kind: "call", id, name: "quote", asked: "00", payment: undefined } as const;
  const conversation = new Conversation({ id, call }, "document", LIST, PLACE);
  conversation.sentUnder(WIRE);
  return conversation;
}

/** A call that is paid for, and what its client gets of that answer. */
async function answered(id: RpcId, type: string, body: string | Buffer, coding?: string) {
  const conversation = called(id);
  let refusals = 0;
  const refuse = async () => void (refusals += 1);
  const settlement = { success: true, transaction: "0x1", network: "base", payer: "0x2" } as const;
  conversation.sold({ settlement, version: 1, refuse });
  const sent = new SentResponse();
  const ended = new Promise((resolve) => sent.once("ended", resolve));
  const response = conversation.through(sent);
  const packed = coding === undefined ? [] : ["Content-Encoding", coding];
  response.writeHead(200, "OK", ["Content-Type", type, ...packed]);
  response.end(body);
  await ended;
  return { isSold: conversation.left(true) === undefined, refusals, text: sent.text, sent };
}

const JSON_TYPE = "application/json";
const EVENTS = "text/event-stream";
const message = (id: unknown) => JSON.stringify({ jsonrpc: "2.0", id, result: GOODS });

// Readers of ids make numbers of digits, and U+FFFD of half a character: such an answer is goods all the same.
test.each<[string, RpcId, unknown]>([
  ["as it is", 7, WIRE],
  ["as the client has it", 7, 7],
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

/** Of more than is read. */
const LONG = "x".repeat(1_100_000);

test.each<[string, (body: Buffer) => Buffer]>([
  ["gzip", gzipSync],
  ["x-gzip", gzipSync],
  ["deflate", deflateSync],
  ["br", brotliCompressSync],
  ["zstd", zstdCompressSync],
])("an answer that is packed as %s is judged by what it says", async (coding, pack) => {
  const failed = { isError: true, content: [{ type: "text", text: "AAPL: 42" }] };
  const bodies = [
    [GOODS, true],
    [failed, false],
    [{ content: [{ type: "text", text: LONG }] }, false],
    [{ content: [{ type: "text", text: randomBytes(1_100_000).toString("base64") }] }, false],
  ] as const;
  for (const [result, isGoods] of bodies) {
    const body = pack(Buffer.from(JSON.stringify({ jsonrpc: "2.0", id: WIRE, result })));
    const { isSold, refusals, text, sent } = await answered(7, JSON_TYPE, body, coding);
    expect([isSold, refusals]).toEqual([isGoods, isGoods ? 0 : 1]);
    expect(JSON.parse(text)).toMatchObject({ id: 7 });
    expect(sent.lines.join()).not.toMatch(/encoding/i);
    if (!isGoods && result !== failed) expect(text).toContain("is not sold");
  }
});

test("what is packed in another way, or as events, is not sold", async () => {
  const body = gzipSync(`data: ${message(WIRE)}\n\n`);
  for (const [type, coding] of [
    [EVENTS, "gzip"],
    [JSON_TYPE, "compress"],
    [JSON_TYPE, "gzip, gzip"],
  ]) {
    const { isSold, text } = await answered(7, type ?? "", body, coding);
    expect([isSold, text.includes("AAPL")]).toEqual([false, false]);
  }
});

test("what is kept as it was packed is read all the same", () => {
  const headers = [["Content-Encoding", "gzip"] as const, ["Content-Type", JSON_TYPE] as const];
  const failed = { jsonrpc: "2.0", id: WIRE, result: { isError: true } };
  const body = gzipSync(JSON.stringify(failed));
  const conversation = called(7);
  conversation.judgeHeld({ status: 200, headers, body });
  expect(conversation.left(true)).toMatchObject({ isBackends: true });
  const given = conversation.again({ status: 200, headers, body });
  expect(JSON.parse(Buffer.from(given.body).toString())).toEqual({ ...failed, id: 7 });
});

test("what is had for nothing, or fetched from another stream, has the id of its client", () => {
  const stream = new Conversation({ id: null, call: null }, "status", LIST, PLACE);
  for (const [conversation, id] of [
    [called(7), WIRE],
    [called(7), 7],
    [stream, wireId(7)],
  ] as const) {
    const sent = new SentResponse();
    const response = conversation.through(sent);
    response.writeHead(200, "OK", ["Content-Type", EVENTS]);
    response.end(`data: ${message(id)}\n\n`);
    expect(JSON.parse(sent.text.slice(6))).toMatchObject({ id: 7, result: GOODS });
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

test("numbers of what is sold are those of its seller, also where no double is one", async () => {
  const numbers =
    '{"id":12345678901234567891,"large":1e400,"share":1.0,"least":-0,"text":"1.0 -0"}';
  const body = `{"jsonrpc":"2.0","id":"${WIRE}","result":{"content":[],"structuredContent":${numbers}}}`;
  for (const [type, given] of [
    [JSON_TYPE, body],
    [EVENTS, `data: ${body}\n\n`],
  ] as const) {
    const { isSold, text } = await answered(7, type, given);
    expect(isSold).toBe(true);
    expect(text).toContain(`"structuredContent":${numbers}`);
    expect(text).toContain('"x402/payment-response"');
    expect(text).toContain('"id":7');
  }
});

const META = "x402/payment-response";

test("numbers of what is sold are those of its seller, also where no double is one", async () => {
  const numbers = String.raw`{"wei":12345678901234567891,"large":1e400,"share":1.0,"least":-0,"text":"\u0041 {1.0"}`;
  const body = `{"jsonrpc":"2.0", "id":"${WIRE}" ,\n"result": { "content":[],\n"structuredContent":${numbers}}}`;
  const document = await answered(7, JSON_TYPE, body);
  const events = await answered(7, EVENTS, `data: ${body.replaceAll("\n", "\ndata: ")}\n\n`);
  for (const { isSold, text } of [document, events]) {
    expect(isSold).toBe(true);
    expect(text).toContain(`"structuredContent":${numbers}}}`);
    expect(text).toContain('"id":7 ,');
    const told = JSON.parse(text.replace(/^data: /, ""));
    expect(told.result).toMatchObject({ content: [], _meta: { [META]: { success: true } } });
  }
});

test.each([
  ["of nothing", "{}", {}],
  ["with notes of its own", '{"_meta":{"a":1},"content":[]}', { a: 1 }],
  ["with a receipt of its seller's", `{"_meta":{"${META}":1}}`, {}],
  ["whose notes are none", '{"_meta":"none"}', {}],
  ["in other spellings", String.raw`{"\u005fmeta":{"a":1}}`, { a: 1 }],
  ["with notes within, and marks in texts", String.raw`{"a":{"_meta":"}\\\""},"b":["{"]}`, {}],
  // What one reader takes for another's is written anew.
  ["with notes twice", '{"_meta":{"a":1},"_meta":{"b":1}}', { b: 1 }],
])("a result %s has the receipt, and what else its seller notes", async (_, result, meta) => {
  const { isSold, text } = await answered(7, JSON_TYPE, `{"id":"${WIRE}","result":${result}}`);
  expect(isSold).toBe(true);
  const told = JSON.parse(text);
  const { [META]: receipt, ...others } = told.result["_meta"];
  expect([told.id, receipt.success, others]).toEqual([7, true, meta]);
  const { _meta, ...given } = JSON.parse(result);
  expect(told.result).toEqual({ ...given, _meta: told.result["_meta"] });
});

test("an answer without an id has that of its call", async () => {
  const { text } = await answered(7, JSON_TYPE, ' {"result" : {"content":[]}} ');
  expect(JSON.parse(text)).toMatchObject({ id: 7, result: { content: [] } });
});
