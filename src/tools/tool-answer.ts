/** What an answer of the gateway is to whoever has called a tool. */
import { brotliDecompressSync, gunzipSync, inflateSync } from "node:zlib";
import type { CallToolResult } from "@modelcontextprotocol/server";
import { isRecord, parseJson } from "../x402/json.ts";
import { isAsDeclared, type Tool } from "./tools.ts";

/** An answer over HTTP. */
export interface AnsweredCall {
  readonly status: number;
  /** Raw `name, value` pairs. */
  readonly headers: readonly (readonly [string, string])[];
  readonly body: Uint8Array;
}

type Content = CallToolResult["content"][number];

/** What a body may unpack to, bytes: what was bought over HTTP may have been kept as it was packed. */
const MAX_UNPACKED_BYTES = 4 * 1024 * 1024;

const JSON_TYPES = /^application\/(?:[\w.+-]+\+)?json$/;
const TEXT_TYPES =
  /^(?:text\/.*|application\/(?:xml|javascript|x-ndjson|yaml|x-www-form-urlencoded|[\w.-]+\+xml))$/;

const UNPACK: Readonly<Record<string, (body: Uint8Array) => Buffer>> = {
  gzip: (body) => gunzipSync(body, { maxOutputLength: MAX_UNPACKED_BYTES }),
  deflate: (body) => inflateSync(body, { maxOutputLength: MAX_UNPACKED_BYTES }),
  br: (body) => brotliDecompressSync(body, { maxOutputLength: MAX_UNPACKED_BYTES }),
};

export function headerOf(
  { headers }: Pick<AnsweredCall, "headers">,
  lowerCaseName: string,
): string | undefined {
  return headers.find(([name]) => name.toLowerCase() === lowerCaseName)?.[1];
}

/** @param resource the URL of what was asked for, by which what is neither text nor a picture is named */
export function toolResult(answer: AnsweredCall, tool: Tool, resource: string): CallToolResult {
  const { status } = answer;
  const body = unpacked(answer);
  if (body === null) return failed("The answer is packed in a way that cannot be read here.");
  const type = headerOf(answer, "content-type") ?? "";
  const [mediaType = ""] = type
    .toLowerCase()
    .split(";", 1)
    .map((part) => part.trim());
  const content = contentOf(body, type, mediaType, resource);
  const notes = notesOf(answer);
  if (status >= 400) return { content: [...content, ...notes], isError: true };
  if (tool.output === null) return { content: [...content, ...notes] };
  const value = JSON_TYPES.test(mediaType) ? parseJson(textOf(body, type)) : undefined;
  if (isRecord(value) && isAsDeclared(value, tool)) {
    return { content: [...content, ...notes], structuredContent: value };
  }
  // Clients drop an answer that is not as it was declared: an error they hand on, with all that it says.
  const said = "This is the whole answer; it is not what the seller has declared of it.";
  return { content: [...content, text(said)], isError: true };
}

export function failed(...said: readonly string[]): CallToolResult {
  return { content: said.map(text), isError: true };
}

function contentOf(
  body: Buffer,
  type: string,
  mediaType: string,
  resource: string,
): readonly Content[] {
  if (body.length === 0) return [];
  if (JSON_TYPES.test(mediaType) || TEXT_TYPES.test(mediaType)) return [text(textOf(body, type))];
  const data = body.toString("base64");
  if (mediaType.startsWith("image/")) return [{ type: "image", data, mimeType: mediaType }];
  if (mediaType.startsWith("audio/")) return [{ type: "audio", data, mimeType: mediaType }];
  const mimeType = mediaType === "" ? "application/octet-stream" : mediaType;
  return [{ type: "resource", resource: { uri: resource, mimeType, blob: data } }];
}

/** What is told in header lines alone. */
function notesOf(answer: AnsweredCall): readonly Content[] {
  const { status } = answer;
  const at = headerOf(answer, "location");
  const wait = headerOf(answer, "retry-after");
  return [
    ...(status >= 300 && status < 400 && at !== undefined
      ? [text(`It is at ${at} (${status}).`)]
      : []),
    ...(status >= 400 && wait !== undefined
      ? [text(`Status ${status}; to be tried again after ${wait} s.`)]
      : []),
  ];
}

function text(said: string): Content {
  return { type: "text", text: said };
}

/** As its charset says; what that cannot read is replaced. */
function textOf(body: Buffer, type: string): string {
  const [, charset = "utf-8"] = /;\s*charset="?([\w.:-]{1,40})/i.exec(type) ?? [];
  try {
    return new TextDecoder(charset).decode(body);
  } catch {
    return new TextDecoder().decode(body);
  }
}

function unpacked(answer: AnsweredCall): Buffer | null {
  const body = Buffer.from(answer.body);
  const coding = headerOf(answer, "content-encoding")?.trim().toLowerCase() ?? "identity";
  if (coding === "identity" || body.length === 0) return body;
  try {
    return UNPACK[coding]?.(body) ?? null;
  } catch {
    return null;
  }
}
