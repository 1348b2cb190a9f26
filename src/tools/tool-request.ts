/**
 * The HTTP request that a call of a tool stands for. What an argument says stays in its place: one segment of the path,
 * one value of the query, one header line, one member of the body.
 */
import { isRecord } from "../x402/json.ts";
import { err, ok, type Result } from "../x402/result.ts";
import type { Argument } from "./tool-input.ts";
import type { Tool } from "./tools.ts";
import { isHeaderValue } from "./written-header.ts";

type Values = Readonly<Record<string, unknown>>;

/** What is asked of the gateway. */
export interface ToolRequest {
  readonly method: string;
  /** Path and query, as in a request line. */
  readonly target: string;
  /** Raw `name, value` pairs, those of the body among them. */
  readonly headers: readonly string[];
  readonly body: Buffer | null;
}

/** Values of one list in a query. */
const MAX_LIST = 100;

/** What URLs leave as it is in a path, so that a target is spelt as over HTTP (WHATWG URL, path percent-encode set). */
const PLAIN_IN_PATHS = /%(?:24|26|2B|2C|3A|3D|40)/g;

/** The error completes "the call cannot be made: …". */
export function toolRequest(tool: Tool, given: Values): Result<ToolRequest, string> {
  const { input, method } = tool;
  const unknown = Object.keys(given).find((name) => !input.arguments.has(name));
  if (unknown !== undefined) {
    const known = [...input.arguments.keys()].join(", ");
    return err(`there is no argument of that name; it takes ${known === "" ? "none" : known}`);
  }
  const path = pathOf(tool, given);
  if (!path.ok) return path;
  const query = queryOf(valuesAt(tool, given, "query"), valuesAt(tool, given, "values"));
  if (!query.ok) return query;
  const headers = ["Accept", "application/json, */*;q=0.5", "Accept-Encoding", "identity"];
  for (const [{ name, field }, value] of valuesAt(tool, given, "header")) {
    const text = scalarText(value);
    if (text === undefined || !isHeaderValue(text)) {
      return err(`${name} is not the text of a header line (printable ASCII)`);
    }
    if (field.toLowerCase() === "accept") headers.splice(0, 2);
    headers.push(field, text);
  }
  const body = bodyOf(tool, given);
  if (!body.ok) return body;
  if (body.value !== null) {
    headers.push(
      "Content-Type",
      body.value.type,
      "Content-Length",
      String(body.value.bytes.length),
    );
  }
  const target = query.value === "" ? path.value : `${path.value}?${query.value}`;
  return ok({ method, target, headers, body: body.value?.bytes ?? null });
}

/** Arguments that are given for a place, null counting as none. */
function valuesAt(
  { input }: Tool,
  given: Values,
  place: Argument["place"],
): readonly (readonly [Argument, unknown])[] {
  return [...input.arguments.values()].flatMap((argument) => {
    const value = Object.hasOwn(given, argument.name) ? given[argument.name] : undefined;
    return argument.place !== place || value === undefined || value === null
      ? []
      : [[argument, value] as const];
  });
}

function pathOf(tool: Tool, given: Values): Result<string, string> {
  const parts = new Map(
    [...valuesAt(tool, given, "path"), ...valuesAt(tool, given, "rest")].map(
      ([{ field }, value]) => [field, value] as const,
    ),
  );
  const written: string[] = [];
  for (const segment of tool.pattern.slice(1).split("/")) {
    const isRest = segment === "*";
    if (!isRest && !segment.startsWith(":")) {
      written.push(segment);
      continue;
    }
    const name = isRest ? "rest" : segment.slice(1);
    const text = scalarText(parts.get(name));
    if (text === undefined) return err(`${name} is missing, or no text`);
    const segments = isRest ? text.split("/") : [text];
    for (const each of segments) {
      if (each === "" && !(isRest && text === "")) return err(`${name} has an empty part`);
      if (each === "." || each === "..") return err(`${name} has a part that leads elsewhere`);
      written.push(segmentText(each));
    }
  }
  return ok(`/${written.join("/")}`);
}

function segmentText(text: string): string {
  return encodeURIComponent(text.toWellFormed()).replaceAll(PLAIN_IN_PATHS, decodeURIComponent);
}

function queryOf(
  fields: readonly (readonly [Argument, unknown])[],
  undeclared: readonly (readonly [Argument, unknown])[],
): Result<string, string> {
  const query = new URLSearchParams();
  const all: (readonly [string, unknown])[] = fields.map(([{ field }, value]) => [field, value]);
  for (const [{ name }, value] of undeclared) {
    if (!isRecord(value)) return err(`${name} is no map of parameters`);
    all.push(...Object.entries(value));
  }
  for (const [name, value] of all) {
    const list: readonly unknown[] = Array.isArray(value) ? value : [value];
    if (list.length > MAX_LIST) return err(`${name} has more than ${MAX_LIST} values`);
    for (const each of list)
      query.append(name.toWellFormed(), (scalarText(each) ?? JSON.stringify(each)).toWellFormed());
  }
  return ok(query.toString());
}

interface WrittenBody {
  readonly type: string;
  readonly bytes: Buffer;
}

function bodyOf(tool: Tool, given: Values): Result<WrittenBody | null, string> {
  const { body: form } = tool.input;
  if (form === null) return ok(null);
  const [whole] = valuesAt(tool, given, "whole");
  const members = Object.fromEntries(
    valuesAt(tool, given, "body").map(([{ field }, value]) => [field, value]),
  );
  const isWhole = [...tool.input.arguments.values()].some(({ place }) => place === "whole");
  if (isWhole && whole === undefined) return ok(null);
  const value = isWhole ? whole?.[1] : members;
  if (form === "text") {
    const text = scalarText(value);
    return text === undefined
      ? err("body is no text")
      : ok(written("text/plain; charset=utf-8", text));
  }
  if (form === "json") return ok(written("application/json", JSON.stringify(value)));
  if (!isRecord(value)) return err("body is no map of fields");
  const query = queryOf([], [[{ name: "body", place: "whole", field: "body" }, value]]);
  return query.ok ? ok(written("application/x-www-form-urlencoded", query.value)) : query;
}

function written(type: string, text: string): WrittenBody {
  return { type, bytes: Buffer.from(text) };
}

/** Undefined for what is no text, number or boolean. */
function scalarText(value: unknown): string | undefined {
  if (typeof value === "string") return value;
  return typeof value === "number" || typeof value === "boolean" ? String(value) : undefined;
}
