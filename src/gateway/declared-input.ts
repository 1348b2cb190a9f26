/**
 * What a route declares of its requests, checked before anybody pays for one that is wrong: path parameters, query and
 * header fields, and the body. Anybody may send what is checked here: one fault of a value is told, and a few in all.
 */
import { createContext, Script } from "node:vm";
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import { isRecord, JSON_TYPES } from "../x402/json.ts";
import { printable } from "../x402/printable.ts";
import type { InboundRequest } from "./message/inbound.ts";

type Values = Readonly<Record<string, unknown>>;

/** Of the configuration. */
export interface InputTerms {
  readonly queryParams?: Values;
  readonly headerFields?: Values;
  readonly bodyType?: string;
  readonly bodyFields?: Values;
  readonly pathParams?: Values;
}

/** A part of a route's pattern. */
export type PatternPart =
  | { readonly kind: "static"; readonly text: string }
  | { readonly kind: "param"; readonly name: string }
  | { readonly kind: "rest" };

/** Faults that are told of one request, and the longest text of one, characters. */
const MAX_FAULTS = 8;
const MAX_FAULT_LENGTH = 200;
/** What of a schema may take longer with each character, or level, of a value: a pattern, or a schema in itself. */
const MAY_BE_SLOW = /"(?:pattern|patternProperties|\$ref)":/;
/** Longest that one value is looked at with such a schema, milliseconds. */
const MAX_LOOK_MS = 100;
/** How often it is looked at where that was over and others had had the processor. */
const MAX_LOOKS = 3;
/** What has to be in a path where something of its pattern was copied as it is written. */
const NAMES = /[:*{%]/;
const NO_PATH = { values: {}, faults: [] } as const;
/** In which a body is its backend's to read. */
const OTHER_CHARSET = /;\s*charset="?(?!utf-?8\b)/i;
/** What has a body that says what is asked for. */
const BODY_METHODS: ReadonlySet<string> = new Set(["POST", "PUT", "PATCH"]);

/** Text that stands for a value of another type is read as that; of JSON nothing is. */
const SHARED = {
  strict: false,
  meta: false,
  validateSchema: false,
  validateFormats: false,
} as const;
const ofText = new Ajv2020({ ...SHARED, logger: false, coerceTypes: "array" });
const ofJson = new Ajv2020({ ...SHARED, logger: false });
// To compare all members of a stranger's list with each other would take hours.
for (const ajv of [ofText, ofJson]) ajv.removeKeyword("uniqueItems");

/** Null: no request for it is another than what is declared. */
export function declaredInput(
  terms: InputTerms,
  pattern: readonly PatternPart[],
): DeclaredInput | null {
  const isDeclared = Object.values(terms).some((each) => each !== undefined);
  const isFixed = pattern.every(({ kind }) => kind === "static");
  return isFixed && !isDeclared ? null : new DeclaredInput(terms, pattern);
}

export class DeclaredInput {
  readonly #pattern: readonly PatternPart[];
  readonly #path: Fields;
  readonly #query: Fields;
  readonly #headers: Fields;
  readonly #body: Fields;
  /** Null: nothing is declared of it. */
  readonly #bodyType: string | null;

  constructor(terms: InputTerms, pattern: readonly PatternPart[]) {
    const { queryParams, headerFields, bodyFields, pathParams } = terms;
    this.#pattern = pattern;
    this.#path = fieldsOf(pathParams, "path parameter", ofText);
    this.#query = fieldsOf(queryParams, "query parameter", ofText);
    this.#headers = fieldsOf(headerFields, "header", ofText);
    const { bodyType = bodyFields === undefined ? null : "json" } = terms;
    this.#bodyType = bodyType;
    this.#body = fieldsOf(bodyFields, "body field", bodyType === "json" ? ofJson : ofText);
  }

  /** What is declared and cannot be checked: `the query parameter days`. */
  get unchecked(): readonly string[] {
    return [this.#path, this.#query, this.#headers, this.#body].flatMap((part) => part.unchecked);
  }

  /** Whether {@link bodyFaults} has to be asked, too. */
  readsBody({ method = "", headers }: Pick<InboundRequest, "method" | "headers">): boolean {
    if (this.#bodyType === null || !BODY_METHODS.has(method)) return false;
    return headers["content-encoding"] === undefined;
  }

  /**
   * What is wrong with a request's head.
   * @param target canonical path and query
   */
  headFaults(target: string, { headers }: Pick<InboundRequest, "headers">): readonly string[] {
    const [path = "", query = ""] = target.split("?", 2);
    const { faults, values } =
      this.#path.isEmpty && !NAMES.test(path) ? NO_PATH : this.#readPath(path);
    return firstOf([
      ...(faults.length > 0 ? faults : this.#path.faultsOf(() => values)),
      ...this.#query.faultsOf(() => readQuery(query)),
      ...this.#headers.faultsOf(() => readHeaders(headers)),
    ]);
  }

  /** What is wrong with a whole body. */
  bodyFaults(body: Buffer, request: Pick<InboundRequest, "headers">): readonly string[] {
    if (body.length === 0) return this.#body.isOptional ? [] : ["the body is missing"];
    const type = request.headers["content-type"] ?? "";
    if (this.#bodyType === "json") {
      if (OTHER_CHARSET.test(type)) return [];
      const read = readJson(body);
      if (read === undefined) return ["the body is no JSON"];
      if (isRecord(read)) return firstOf(this.#body.faultsOf(() => read));
      return this.#body.isOptional ? [] : ["the body is no JSON object"];
    }
    if (!/^application\/x-www-form-urlencoded\b/i.test(type)) return [];
    return firstOf(this.#body.faultsOf(() => readQuery(body.toString("utf8"))));
  }

  /** The values of the pattern's parameters; where it is copied as it is written, there are none. */
  #readPath(path: string): { readonly values: Values; readonly faults: readonly string[] } {
    const parts = path.slice(1).split("/");
    const values: Record<string, unknown> = {};
    const faults: string[] = [];
    for (const [index, segment] of this.#pattern.entries()) {
      if (segment.kind === "static") continue;
      const isRest = segment.kind === "rest";
      const value = decoded(
        (isRest ? parts.slice(index) : parts.slice(index, index + 1)).join("/"),
      );
      const name = isRest ? "*" : segment.name;
      if (value === "*" || value === `:${name}` || value === `{${name}}`) {
        faults.push(`put a value in the place of ${value} in the path`);
      } else if (!isRest) values[name] = value;
    }
    return { values, faults };
  }
}

/** What is declared of the fields of one part of a request. */
class Fields {
  readonly #what: string;
  readonly #required: readonly string[];
  readonly #properties: Values;
  readonly #names: readonly string[];
  readonly #ajv: Ajv2020;
  /** By field; null: what is declared of it cannot be checked. Made when it is first asked for. */
  readonly #validators = new Map<string, ValidateFunction | null>();
  /** Those whose check has to be stopped where it takes too long. */
  readonly #slow: ReadonlySet<string>;

  constructor(declared: Values | undefined, what: string, ajv: Ajv2020) {
    const fields = Object.entries(declared ?? {});
    // Names of header fields have no case; node gives them in lower case.
    const nameOf = (name: string): string => (what === "header" ? name.toLowerCase() : name);
    this.#what = what;
    this.#ajv = ajv;
    this.#required = fields.flatMap(([name, field]) => {
      return isRecord(field) && field["required"] === true ? [nameOf(name)] : [];
    });
    this.#properties = Object.fromEntries(
      fields.map(([name, field]) => [nameOf(name), schemaOf(field)]),
    );
    this.#names = Object.keys(this.#properties);
    this.#slow = new Set(
      this.#names.filter((name) => MAY_BE_SLOW.test(JSON.stringify(this.#properties[name]))),
    );
  }

  /** Nothing is declared of any. */
  get isEmpty(): boolean {
    return this.#names.length === 0;
  }

  get isOptional(): boolean {
    return this.#required.length === 0;
  }

  get unchecked(): readonly string[] {
    return Object.entries(this.#properties)
      .filter(([name, schema]) => hasForeignType(schema) || this.#validatorOf(name) === null)
      .map(([name]) => `the ${this.#what} ${name}`);
  }

  /** @param read is asked for the fields of a request where any are declared */
  faultsOf(read: () => Values): Iterable<string> {
    return this.#names.length === 0 ? [] : this.#faultsOf(read());
  }

  *#faultsOf(values: Values): Generator<string> {
    for (const name of this.#required) {
      const value = Object.hasOwn(values, name) ? values[name] : undefined;
      if (value === undefined || value === "") yield `the ${this.#what} ${name} is missing`;
    }
    for (const name of this.#names) {
      if (!Object.hasOwn(values, name) || values[name] === "") continue;
      const said = this.#faultOf(name, values[name]);
      if (said !== null) yield `the ${this.#what} ${name} ${said}`;
    }
  }

  #faultOf(name: string, value: unknown): string | null {
    const validate = this.#validatorOf(name);
    if (validate === null) return null;
    // Validators that read text as what it stands for write that into what holds the value.
    const look = (): unknown => validate({ value });
    try {
      if (this.#slow.has(name) ? withinLook(look) : look()) return null;
    } catch (cause) {
      if (cause instanceof RangeError) return "cannot be read: it nests too deep";
      // Anybody could have everybody wait for it again and again.
      this.#validators.set(name, null);
      return null;
    }
    const [error] = validate.errors ?? [];
    const place = error?.instancePath.replace(/^\/value/, "") ?? "";
    return `${place === "" ? "" : `(${place.slice(1)}) `}${error?.message ?? "is not what is declared"}`;
  }

  #validatorOf(name: string): ValidateFunction | null {
    const known = this.#validators.get(name);
    if (known !== undefined) return known;
    const schema = { type: "object", properties: { value: this.#properties[name] } };
    const made = compiled(this.#ajv, schema);
    this.#validators.set(name, made);
    return made;
  }
}

/** Thousands of routes declare nothing of most of it. */
const NO_FIELDS = new Fields(undefined, "", ofText);

function fieldsOf(declared: Values | undefined, what: string, ajv: Ajv2020): Fields {
  return declared === undefined ? NO_FIELDS : new Fields(declared, what, ajv);
}

const ground = { run: (): unknown => undefined };
const stopped = new Script("run()");
createContext(ground);

/** @throws where it takes longer than {@link MAX_LOOK_MS}: only what a script runs can be stopped */
function withinLook(run: () => unknown): unknown {
  ground.run = run;
  for (let looks = 1; ; looks += 1) {
    const before = process.threadCpuUsage();
    try {
      const outcome: unknown = stopped.runInContext(ground, { timeout: MAX_LOOK_MS });
      return outcome;
    } catch (cause) {
      const { user, system } = process.threadCpuUsage(before);
      const hasWorked = user + system > (MAX_LOOK_MS / 2) * 1_000;
      if (hasWorked || looks === MAX_LOOKS || !isOver(cause)) throw cause;
    }
  }
}

function isOver(cause: unknown): boolean {
  return Object(cause).code === "ERR_SCRIPT_EXECUTION_TIMEOUT";
}

/** Null where it cannot be checked: it is no schema, or refers to what is not there. */
function compiled(ajv: Ajv2020, schema: object): ValidateFunction | null {
  try {
    const validate = ajv.compile(schema);
    // What was made of it goes with the configuration.
    ajv.removeSchema(schema);
    return validate;
  } catch {
    return null;
  }
}

/** A schema, the name of a type, or a sentence, which says nothing that could be checked. */
function schemaOf(declared: unknown): Values {
  if (typeof declared === "string") return JSON_TYPES.has(declared) ? { type: declared } : {};
  if (!isRecord(declared)) return {};
  const { required, type, $id: _, ...schema } = declared;
  return {
    ...schema,
    ...(type !== undefined && { type }),
    ...(Array.isArray(required) && { required }),
  };
}

/** A type that JSON does not have, as descriptions for people name them. */
function hasForeignType(schema: unknown): boolean {
  if (!isRecord(schema) || schema["type"] === undefined) return false;
  const { type } = schema;
  const types: readonly unknown[] = Array.isArray(type) ? type : [type];
  return !types.every((each) => JSON_TYPES.has(each));
}

function readQuery(query: string): Values {
  const values: Record<string, unknown> = {};
  const parameters = new URLSearchParams(query);
  for (const name of new Set(parameters.keys())) {
    const all = parameters.getAll(name);
    values[name] = all.length === 1 ? all[0] : all;
  }
  return values;
}

function readHeaders(headers: InboundRequest["headers"]): Values {
  return Object.fromEntries(Object.entries(headers).filter(([, value]) => value !== undefined));
}

function readJson(body: Buffer): unknown {
  try {
    // Without the mark of its byte order, that some write before it and backends read over.
    const read: unknown = JSON.parse(new TextDecoder().decode(body));
    return read;
  } catch {
    return undefined;
  }
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function firstOf(faults: Iterable<string>): readonly string[] {
  const told: string[] = [];
  for (const fault of faults) {
    if (told.length === MAX_FAULTS) break;
    told.push(printable(fault).slice(0, MAX_FAULT_LENGTH));
  }
  return told;
}
