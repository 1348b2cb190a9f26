/** Answers over HTTP as results of a tool, where no client would see the difference. */
import { brotliCompressSync, deflateSync, gzipSync } from "node:zlib";
import { expect, it } from "vitest";
import { toolResult } from "../../../src/tools/tool-answer.ts";
import type { Tool } from "../../../src/tools/tools.ts";

const tool: Tool = {
  name: "get_a",
  description: "",
  input: {
    schema: { type: "object", additionalProperties: false },
    example: {},
    arguments: new Map(),
    body: null,
  },
  output: null,
  price: "$0.01",
  method: "GET",
  route: "GET /a",
  pattern: "/a",
  isReading: true,
};

const resultOf = (status: number, lines: readonly (readonly [string, string])[], body: Buffer) =>
  toolResult({ status, headers: lines, body }, tool, "https://a.example/a");

it("is unpacked, as far as that is known and no more than a result may be", () => {
  const text = Buffer.from("said");
  const packed = { gzip: gzipSync(text), deflate: deflateSync(text), br: brotliCompressSync(text) };
  for (const [coding, body] of Object.entries(packed)) {
    const lines = [
      ["Content-Type", "text/plain"],
      ["Content-Encoding", coding],
    ] as const;
    expect(resultOf(200, lines, body).content).toEqual([{ type: "text", text: "said" }]);
  }
  const bomb = gzipSync(Buffer.alloc(64 * 1024 * 1024));
  for (const [coding, body] of [
    ["gzip", bomb],
    ["gzip", text],
    ["zstd", text],
  ] as const) {
    const lines = [["Content-Encoding", coding]] as const;
    expect(resultOf(200, lines, body)).toMatchObject({ isError: true });
  }
});

it("says where it is, and when to ask again, which only lines tell", () => {
  expect(resultOf(303, [["Location", "/b"]], Buffer.alloc(0)).content).toEqual([
    { type: "text", text: "It is at /b (303)." },
  ]);
  expect(resultOf(503, [["Retry-After", "7"]], Buffer.alloc(0))).toEqual({
    isError: true,
    content: [{ type: "text", text: "Status 503; to be tried again after 7 s." }],
  });
});

it("is text in whatever charset it was written, and bytes where nobody says what it is", () => {
  const lines = [["Content-Type", 'text/plain; charset="iso-8859-1"']] as const;
  expect(resultOf(200, lines, Buffer.from([0xe9])).content).toEqual([{ type: "text", text: "é" }]);
  const unknown = [["Content-Type", "text/plain; charset=none"]] as const;
  expect(resultOf(200, unknown, Buffer.from("é")).content).toEqual([{ type: "text", text: "é" }]);
  expect(resultOf(200, [], Buffer.from([1])).content).toEqual([
    {
      type: "resource",
      resource: { uri: "https://a.example/a", mimeType: "application/octet-stream", blob: "AQ==" },
    },
  ]);
});
