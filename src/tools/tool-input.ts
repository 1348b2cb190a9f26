/** What a tool is called with: the parameters of its route in one flat map, and where each of them goes in a request. */
import type { PricedAction, RouteSettings } from "../config/config.ts";
import { membersOf, type Schema } from "../x402/bazaar.ts";
import { isRecord } from "../x402/json.ts";
import { isWritable } from "./written-header.ts";

type Declared = PricedAction["input"];
type Fields = Readonly<Record<string, unknown>>;

/**
 * `rest`: what `*` of the path stands for. `values`: query parameters of which nothing is declared. `whole`: a body of
 * which nothing is declared.
 */
type Place = "path" | "rest" | "query" | "values" | "header" | "body" | "whole";

/** One argument, and where it goes. */
export interface Argument {
  readonly name: string;
  readonly place: Place;
  /** What it is called there. */
  readonly field: string;
}

export interface ToolInput {
  /** JSON Schema of the arguments: an object, and nothing refers elsewhere. */
  readonly schema: Schema & { readonly type: "object"; readonly additionalProperties: false };
  /** Arguments that are an example of it. */
  readonly example: Fields;
  /** By their names. */
  readonly arguments: ReadonlyMap<string, Argument>;
  /** How the body is written; null: there is none. */
  readonly body: "json" | "form" | "text" | null;
}

const BODY_METHODS: ReadonlySet<string> = new Set(["POST", "PUT", "PATCH"]);
const ONE_SEGMENT = { type: "string" };
const REST_OF_PATH = { type: "string", description: "The rest of the path, slashes included" };
const ANY_VALUES = {
  type: "object",
  description: "Query parameters by name; the seller does not describe them",
};
const ANY_BODY = { description: "The request body as JSON; the seller does not describe it" };
const ANY_FORM = {
  type: "object",
  description: "The fields of the form; the seller does not describe them",
};
const ANY_TEXT = { type: "string", description: "The request body" };

/** Why it cannot be called, where it cannot. */
export function toolInput(
  { segments }: Pick<RouteSettings, "segments">,
  declared: Declared,
  method: string,
): ToolInput | string {
  const { bodyType = "json", bodyFields, queryParams, headerFields, pathParams = {} } = declared;
  const hasBody = BODY_METHODS.has(method);
  if (hasBody && (bodyType === "multipart-form-data" || bodyType === "binary")) {
    return `it is sent files (bodyType: ${bodyType})`;
  }
  const made = new Arguments();
  for (const segment of segments) {
    if (segment.kind === "static") continue;
    const field = segment.kind === "rest" ? "rest" : segment.name;
    const usual = segment.kind === "rest" ? REST_OF_PATH : ONE_SEGMENT;
    const place = segment.kind === "rest" ? "rest" : "path";
    made.add(place, field, Object.hasOwn(pathParams, field) ? pathParams[field] : usual, true);
  }
  for (const [field, told] of Object.entries(queryParams ?? {})) made.add("query", field, told);
  if (queryParams === undefined) made.add("values", "query", ANY_VALUES);
  for (const [field, told] of Object.entries(headerFields ?? {})) {
    if (isWritable(field)) made.add("header", field, told);
  }
  if (!hasBody) return made.input(null);
  const body = bodyType === "form-data" ? "form" : bodyType === "text" ? "text" : "json";
  if (body === "text") made.add("whole", "body", ANY_TEXT);
  else if (bodyFields === undefined)
    made.add("whole", "body", body === "form" ? ANY_FORM : ANY_BODY);
  else for (const [field, told] of Object.entries(bodyFields)) made.add("body", field, told);
  return made.input(body);
}

class Arguments {
  readonly #all = new Map<string, Argument>();
  readonly #fields = new Map<string, unknown>();

  /** What comes later and would have the same name is called by its place as well. */
  add(place: Place, field: string, told: unknown, isWanted = false): void {
    let name = this.#all.has(field) ? `${place}_${field}` : field;
    while (this.#all.has(name)) name = `${name}_`;
    this.#all.set(name, { name, place, field });
    this.#fields.set(name, isWanted ? { ...asMap(told), required: true } : told);
  }

  input(body: ToolInput["body"]): ToolInput {
    const { schema, example } = membersOf(Object.fromEntries(this.#fields));
    return {
      schema: { ...schema, type: "object", additionalProperties: false },
      example: isRecord(example) ? example : {},
      arguments: this.#all,
      body,
    };
  }
}

function asMap(told: unknown): Fields {
  if (isRecord(told)) return told;
  return typeof told === "string" ? { type: "string", description: told } : ONE_SEGMENT;
}
