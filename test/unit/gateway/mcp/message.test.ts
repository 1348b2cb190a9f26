/** What is read of a message, and what is refused since backends may read it in another way. */
import { describe, expect, test } from "vitest";
import { readMessage } from "../../../../src/gateway/mcp/message.ts";

const read = (text: string | Buffer, lines: readonly string[] = []) => {
  const { message, body } = readMessage(Buffer.from(text), lines);
  return { message, body: body.toString() };
};
const call = (params: object, more: object = {}) =>
  JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params, ...more });
const kindOf = (text: string | Buffer, lines: readonly string[] = []) => {
  const { message } = read(text, lines);
  return message.kind === "refused" ? [message.kind, message.code] : [message.kind];
};

describe("a call", () => {
  test("is read with its name, its id and what pays for it, which the backend does not get", () => {
    const text =
      '{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"héllo","_meta":{"x":1, "x402/payment":{"x402Version":2,"é":"}"}},"arguments":{"a":[{"_meta":{"x402/payment":1}}],"params":{"_meta":{"x402/payment":2}}}}}';
    const { message, body } = read(text);
    expect(message).toMatchObject({
      kind: "call",
      id: "a",
      name: "héllo",
      payment: { x402Version: 2, é: "}" },
    });
    expect(Buffer.byteLength(body)).toBe(Buffer.byteLength(text));
    expect(body).not.toContain("x402Version");
    expect(JSON.parse(body)).toEqual({
      ...JSON.parse(text),
      params: { ...JSON.parse(text).params, _meta: { x: 1 } },
    });
  });

  test.each([
    '{"x402/payment":{"n":1}}',
    '{"x402/payment":{"n":1},"a":2}',
    '{"a":2 , "x402/payment" : {"n":1} }',
    '{"\\u0078402/payment":{"n":1}, "a":2}',
  ])("has no payment any more, wherever it stood: %s", (meta) => {
    const text = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","_meta":${meta}}}`;
    const { body, message } = read(text);
    expect(message).toMatchObject({ payment: { n: 1 } });
    const left = Object.keys(JSON.parse(body).params._meta);
    expect(left).toEqual(Object.keys(JSON.parse(meta)).filter((each) => each === "a"));
  });

  test("is the same with another id, other members of _meta, in another order, and with the answers that it asked for", () => {
    const asked = (text: string) => {
      const { message } = read(text);
      return message.kind === "call" ? message.asked : "none";
    };
    const first = asked(call({ name: "x", arguments: { a: 1, b: [2, "c"] } }));
    const same = [
      call({ arguments: { b: [2, "c"], a: 1 }, name: "x" }, { id: 2 }),
      call({ name: "x", arguments: { a: 1, b: [2, "c"] }, _meta: { progressToken: 4 } }),
      call({
        name: "x",
        arguments: { a: 1, b: [2, "c"] },
        inputResponses: { q: {} },
        requestState: "s",
      }),
    ];
    expect(same.map(asked)).toEqual([first, first, first]);
    const others = [
      call({ name: "y", arguments: { a: 1, b: [2, "c"] } }),
      call({ name: "x", arguments: { a: 1, b: ["c", 2] } }),
      call({ name: "x", arguments: { a: "1", b: [2, "c"] } }),
      call({ name: "x" }),
      call({ name: "x", arguments: { a: 1, b: [2, "c"] }, task: {} }),
    ];
    expect(new Set([first, ...others.map(asked)]).size).toBe(6);
  });
});

describe("is refused:", () => {
  const named = '"params":{"name":"x"}';
  test.each<[string, string | Buffer, number]>([
    ["no JSON", "{", -32700],
    ["no UTF-8", Buffer.from([0x7b, 0xff, 0x7d]), -32700],
    ["two values", `${call({ name: "x" })}{}`, -32700],
    ["a mark of byte order", `\ufeff${call({ name: "x" })}`, -32700],
    ["several at once", `[${call({ name: "free" })},${call({ name: "x" })}]`, -32600],
    ["a text", '"tools/call"', -32600],
    ["another version", '{"id":1,"method":"ping"}', -32600],
    [
      "a method twice",
      `{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call",${named}}`,
      -32700,
    ],
    [
      "a method twice, once as an escape",
      `{"jsonrpc":"2.0","id":1,"method":"ping","m\\u0065thod":"tools/call",${named}}`,
      -32700,
    ],
    [
      "a method in other letters",
      `{"jsonrpc":"2.0","id":1,"method":"ping","Method":"tools/call",${named}}`,
      -32600,
    ],
    ["params twice", `{"jsonrpc":"2.0","id":1,"method":"tools/call",${named},"params":{}}`, -32700],
    [
      "a name twice",
      '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","name":"b"}}',
      -32700,
    ],
    ["a name in other letters, too", call({ name: "free", Name: "x" }), -32600],
    ["a name in other letters alone", call({ NAME: "x" }), -32600],
    ["a name before a NUL", call({ "name\0": "x", name: "free" }), -32600],
    ["a method before a NUL", call({ name: "x" }, { "method\0": "ping" }), -32600],
    ["_meta in other letters", call({ name: "x", _META: {} }), -32600],
    ["a payment in other letters", call({ name: "x", _meta: { "X402/Payment": {} } }), -32600],
    ["no name", call({}), -32602],
    ["a name that is none", call({ name: ["x"] }), -32602],
    ["params by place", call(["x"]), -32602],
    ["arguments that are a text", call({ name: "x", arguments: "{}" }), -32602],
    ["_meta that is a list", call({ name: "x", _meta: [] }), -32602],
    ["a call as a notification", call({ name: "x" }, { id: undefined }), -32600],
    ["a call without a proper id", call({ name: "x" }, { id: null }), -32600],
    ["a call with a long id", call({ name: "x" }, { id: "x".repeat(300) }), -32600],
    ["a call that is an answer, too", call({ name: "x" }, { result: {} }), -32600],
    ["a call in other letters", call({ name: "x" }, { method: "Tools/Call" }), -32601],
    ["a call behind a space", call({ name: "x" }, { method: " tools/call" }), -32601],
    ["a call before a NUL", call({ name: "x" }, { method: "tools/call\0ping" }), -32601],
    ["a call in full width", call({ name: "x" }, { method: "ｔools/call" }), -32601],
    ["neither method nor answer", '{"jsonrpc":"2.0","id":1}', -32600],
    [
      "deep nesting",
      call({ name: "x", arguments: JSON.parse('{"a":'.repeat(60) + "1" + "}".repeat(60)) }),
      -32700,
    ],
  ])("%s", (_, text, code) => {
    expect(kindOf(text)).toEqual(["refused", code]);
  });

  test("header lines that say something else", () => {
    const text = call({ name: "quote" });
    const refused = ["refused", -32020];
    expect(kindOf(text, ["Mcp-Method", "tools/call", "Mcp-Name", "quote"])).toEqual(["call"]);
    expect(kindOf(text, ["Mcp-Name", "=?base64?cXVvdGU=?="])).toEqual(["call"]);
    expect(kindOf(text, ["Mcp-Method", "ping"])).toEqual(refused);
    expect(kindOf(text, ["mcp-name", "echo"])).toEqual(refused);
    expect(kindOf(text, ["Mcp-Name", "quote", "Mcp-Name", "echo"])).toEqual(refused);
    expect(kindOf(text, ["Mcp-Method", "tools/call", "Mcp-Method", "tools/call"])).toEqual(refused);
    const ping = '{"jsonrpc":"2.0","id":1,"method":"ping"}';
    expect(kindOf(ping, ["Mcp-Method", "tools/call", "Mcp-Name", "quote"])).toEqual(refused);
    const param = (...lines: readonly string[]) => kindOf(asked, lines);
    const asked = call({
      name: "quote",
      arguments: { n: 1, Ticker: "é", at: { big: true, no: null } },
    });
    expect(param("Mcp-Param-N", "1", "mcp-param-ticker", "=?base64?w6k=?=")).toEqual(["call"]);
    expect(param("Mcp-Param-Region", "true")).toEqual(["call"]);
    // Whoever believes the line would do more than the body asks, and is paid, for.
    expect(param("Mcp-Param-N", "1000")).toEqual(refused);
    expect(param("Mcp-Param-N", "true")).toEqual(refused);
    expect(param("Mcp-Param-N", "1", "mcp-param-n", "1")).toEqual(refused);
    expect(param("Mcp-Param-Region", "eu")).toEqual(refused);
    expect(param("Mcp-Param-No", "null")).toEqual(refused);
    expect(kindOf(text, ["Mcp-Param-N", "1"])).toEqual(refused);
    expect(kindOf(ping, ["Mcp-Param-N", "1"])).toEqual(refused);
    const answer = '{"jsonrpc":"2.0","id":1,"result":{}}';
    expect(kindOf(answer, ["Mcp-Method", "tools/call"])).toEqual(refused);
  });
});

test("all else passes: lists, notifications, answers, and what nobody knows", () => {
  const message = (told: object) => JSON.stringify({ jsonrpc: "2.0", ...told });
  expect(kindOf(message({ id: 1, method: "tools/list" }))).toEqual(["list"]);
  expect(kindOf(message({ method: "tools/list" }))).toEqual(["other"]);
  expect(kindOf(message({ id: 1, method: "initialize", params: { name: "x" } }))).toEqual([
    "other",
  ]);
  expect(kindOf(message({ method: "notifications/cancelled" }))).toEqual(["other"]);
  expect(kindOf(message({ id: 1, result: {} }))).toEqual(["other"]);
  expect(kindOf(message({ id: 1, method: "tools/calls" }))).toEqual(["other"]);
});
