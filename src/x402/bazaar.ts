/**
 * The bazaar extension of version 2: how a resource is asked for, as an example and a JSON Schema of it. It is made
 * of `outputSchema`, where version 1 says the same, and says nothing that is not there. What that declares of a
 * field may be a schema, the name of a type or a sentence; of schemas only types, choices, members, items and
 * descriptions are taken over, so that nothing refers elsewhere, and the example fits for every validator.
 */
import { valuesIn } from "./declared-example.ts";
import { isRecord, JSON_TYPES } from "./json.ts";
import type { ExtensionsV2 } from "./version-2.ts";
import type { PaymentRequirements } from "./x402.ts";

/** Its name among the extensions. */
export const BAZAAR = "bazaar";

type Values = Readonly<Record<string, unknown>>;
type Declared = Pick<PaymentRequirements, "outputSchema">;

type BazaarExtension = {
  /** Examples. */
  readonly info: { readonly input: Values; readonly output?: Values };
  /** JSON Schema 2020-12 that `info` fits. */
  readonly schema: Values;
  /** Of a route with parameters its path: `/reports/:id`. */
  readonly routeTemplate?: string;
};

/** A JSON Schema, and a value that fits it; undefined: nobody can know one. */
export interface Sample {
  readonly schema: Schema;
  readonly example: unknown;
}

export interface Schema {
  readonly type?: string | readonly string[];
  readonly description?: string;
  readonly enum?: readonly unknown[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly items?: Schema;
}

const UNKNOWN: Sample = { schema: {}, example: undefined };

const BODILESS_METHODS: ReadonlySet<string> = new Set(["GET", "HEAD", "DELETE"]);
const BODY_METHODS: ReadonlySet<string> = new Set(["POST", "PUT", "PATCH"]);
/** Those of version 1 that have other names; what is no word of either is JSON. */
const BODY_TYPES: ReadonlyMap<unknown, string> = new Map([
  ["form-data", "form-data"],
  ["multipart-form-data", "form-data"],
  ["text", "text"],
  ["binary", "text"],
]);
/** Of what official catalogues take for a template that in which nothing is escaped: what escapes hide they refuse. */
const ROUTE_TEMPLATE = /^\/[\w/:.\-~]+$/;
/** Catalogues refuse these wherever they stand in a schema, as names of members, too. */
const REFERENCES: ReadonlySet<string> = new Set(["$ref", "$id"]);
/** Levels of members and items that are described; nobody has to read more of them, and we neither. */
const MAX_DEPTH = 8;
/** In place of a value of which nothing is known but that it is there. */
const PLACEHOLDER = "string";

/** What a way to pay has in `extensions` of version 2: the same for each way to pay for one method of a route. */
export function extensionsOf({ outputSchema }: Declared): ExtensionsV2 | undefined {
  const input = bazaarInput(outputSchema);
  return input && { [BAZAAR]: bazaarExtension(input, outputSchema?.["output"]) };
}

/** Whether {@link extensionsOf} has it, at the cost of a look. */
export function hasBazaar({ outputSchema }: Declared): boolean {
  return bazaarInput(outputSchema) !== undefined;
}

/** What says that it is not for catalogues, or is asked for in a way that they do not know, is nothing for them. */
function bazaarInput(outputSchema: Declared["outputSchema"]): Values | undefined {
  const input = outputSchema?.["input"];
  if (!isRecord(input)) return undefined;
  const { type, method, discoverable } = input;
  const isKnown = typeof method === "string" && isKnownMethod(method.toUpperCase());
  return type === "http" && discoverable === true && isKnown ? input : undefined;
}

function isKnownMethod(method: string): boolean {
  return BODILESS_METHODS.has(method) || BODY_METHODS.has(method);
}

function bazaarExtension(input: Values, output: unknown): BazaarExtension {
  const method = String(input["method"]).toUpperCase();
  const template = input["routeTemplate"];
  const path = typeof template === "string" ? withNamedRest(template) : "";
  const parts: Readonly<Record<string, Sample | undefined>> = {
    type: word("http"),
    method: word(method),
    ...(BODY_METHODS.has(method) && {
      bodyType: word(BODY_TYPES.get(input["bodyType"]) ?? "json"),
      body: membersOf(recordOf(input["bodyFields"])),
    }),
    queryParams: BODILESS_METHODS.has(method)
      ? membersOf(recordOf(input["queryParams"]))
      : declaredIn(input["queryParams"]),
    pathParams: pathParamsOf(path, recordOf(input["pathParams"])),
    headers: headersOf(input["headerFields"]),
  };
  const told = Object.entries(parts).filter((part): part is [string, Sample] => {
    return part[1] !== undefined;
  });
  const answer = outputOf(isRecord(output) ? sampleOf(output) : UNKNOWN);
  return {
    info: {
      input: examplesOf(told),
      ...(isRecord(output) && { output: recordOf(answer.example) }),
    },
    schema: {
      $schema: "https://json-schema.org/draft/2020-12/schema",
      type: "object",
      properties: {
        input: {
          ...schemaOf(told),
          required: told.filter(isWanted).map(([name]) => name),
        },
        // Of an answer of which nothing is known, too: there are catalogues that miss it.
        output: answer.schema,
      },
      required: ["input"],
    },
    ...(isTemplate(path) && { routeTemplate: path }),
  };
}

/** What can be nothing but that. */
function word(text: string): Sample {
  return { schema: { type: "string", enum: [text] }, example: text };
}

/** Query and header fields may all be left out where none of them has to be there. */
function isWanted([name, { schema }]: readonly [string, Sample]): boolean {
  return (name !== "queryParams" && name !== "headers") || schema.required !== undefined;
}

function outputOf({ schema, example }: Sample): Sample {
  const parts: [string, Sample][] = [
    ["type", { schema: { type: "string" }, example: "json" }],
    ["example", { schema, example }],
  ];
  const known = example === undefined ? parts.slice(0, 1) : parts;
  return { schema: { ...schemaOf(parts), required: ["type"] }, example: examplesOf(known) };
}

/** The rest of a path that `*` stands for is one more parameter. */
function withNamedRest(template: string): string {
  if (!template.endsWith("/*")) return template;
  const names = new Set(template.split("/"));
  let name = ":rest";
  for (let number = 2; names.has(name); number += 1) name = `:rest${number}`;
  return `${template.slice(0, -1)}${name}`;
}

function isTemplate(path: string): boolean {
  if (!ROUTE_TEMPLATE.test(path) || path.includes("..")) return false;
  return path.includes("/:") && !path.includes("://");
}

function pathParamsOf(path: string, known: Values): Sample | undefined {
  const names = path.split("/").flatMap((part) => (part.startsWith(":") ? [part.slice(1)] : []));
  if (names.length === 0) return undefined;
  const told = names.map((name) => {
    return [name, Object.hasOwn(known, name) ? known[name] : { type: "string" }] as const;
  });
  return membersOf(Object.fromEntries(told), names);
}

/** Header lines are text, whatever they are said to mean. */
function headersOf(declared: unknown): Sample | undefined {
  const fields = declaredIn(declared);
  if (fields === undefined) return undefined;
  const told = Object.entries(recordOf(fields.example)).map(([name, value]): [string, Sample] => {
    const description = fields.schema.properties?.[name]?.description;
    const schema = { type: "string", ...(description !== undefined && { description }) };
    return [name, { schema, example: typeof value === "string" ? value : JSON.stringify(value) }];
  });
  const { required } = fields.schema;
  return {
    schema: { ...schemaOf(told), ...(required !== undefined && { required }) },
    example: examplesOf(told),
  };
}

function declaredIn(declared: unknown): Sample | undefined {
  const fields = recordOf(declared);
  return Object.keys(fields).length === 0 ? undefined : membersOf(fields);
}

/** An object with those members: each says itself that it has to be there, or the object says so of it. */
export function membersOf(fields: Values, required: unknown = [], depth = 0): Sample {
  const listed = new Set<unknown>(Array.isArray(required) ? required : []);
  const named = Object.entries(fields).filter(([name]) => !REFERENCES.has(name));
  const told = named.map(([name, field]): [string, Sample] => {
    const { schema, example = PLACEHOLDER } = sampleOf(field, depth + 1);
    return [name, { schema, example }];
  });
  const wanted = named.filter(([name, field]) => {
    return listed.has(name) || recordOf(field)["required"] === true;
  });
  const names = wanted.map(([name]) => name);
  return {
    schema: { ...schemaOf(told), ...(names.length > 0 && { required: names }) },
    example: examplesOf(told),
  };
}

function schemaOf(told: readonly (readonly [string, Sample])[]): Schema {
  const properties = Object.fromEntries(told.map(([name, { schema }]) => [name, schema]));
  return { type: "object", properties };
}

function examplesOf(told: readonly (readonly [string, Sample])[]): Values {
  return Object.fromEntries(told.map(([name, { example }]) => [name, example]));
}

/** Of what is declared of one field. */
export function sampleOf(declared: unknown, depth = 0): Sample {
  if (typeof declared === "string") {
    const isType = JSON_TYPES.has(declared);
    return sampleOf(isType ? { type: declared } : { type: "string", description: declared }, depth);
  }
  if (!isRecord(declared)) return { schema: {}, example: declared };
  if (depth > MAX_DEPTH) return UNKNOWN;
  const { description, enum: choices, properties, items, required } = declared;
  const members = isRecord(properties) ? membersOf(properties, required, depth) : undefined;
  const item = isRecord(items) ? sampleOf(items, depth + 1) : undefined;
  const type = readType(declared["type"]) ?? (members ? "object" : item && "array");
  const schema: Schema = {
    ...(type !== undefined && { type }),
    ...(typeof description === "string" && { description }),
    ...(members?.schema.properties && { properties: members.schema.properties }),
    ...(members?.schema.required && { required: members.schema.required }),
    ...(item && { items: item.schema }),
  };
  const isChoice =
    Array.isArray(choices) && choices.length > 0 && !choices.some((each) => each === Object(each));
  const strict: Schema = isChoice ? { ...schema, enum: choices } : schema;
  const usual = plainValue(type, members, item);
  const example = [...valuesIn(declared), usual].find((value) => {
    return value !== undefined && fits(value, strict);
  });
  // Where a schema contradicts itself its type is what can be kept of it.
  return example === undefined ? { schema, example: usual } : { schema: strict, example };
}

function readType(type: unknown): Schema["type"] | undefined {
  const types: readonly unknown[] = Array.isArray(type) ? type : [type];
  const isRead = types.length > 0 && types.every((each) => JSON_TYPES.has(each));
  if (!isRead) return undefined;
  const [first, ...more] = new Set(types.map(String));
  return more.length === 0 ? first : [first ?? "", ...more];
}

function plainValue(
  type: Schema["type"],
  members: Sample | undefined,
  item: Sample | undefined,
): unknown {
  switch (typeof type === "string" ? type : type?.[0]) {
    case "string":
      return PLACEHOLDER;
    case "number":
    case "integer":
      return 1;
    case "boolean":
      return true;
    case "null":
      return null;
    case "array":
      return item?.example === undefined ? [] : [item.example];
    case "object":
      return members?.example ?? {};
    default:
      return undefined;
  }
}

/** As validators see it: members that an object inherits are there for most of them. */
export function fits(
  value: unknown,
  { type, enum: choices, properties, required, items }: Schema,
): boolean {
  const types = typeof type === "string" ? [type] : type;
  if (types !== undefined && !types.some((each) => isOfType(value, each))) return false;
  const text = JSON.stringify(value);
  if (choices !== undefined && !choices.some((each) => JSON.stringify(each) === text)) return false;
  if (Array.isArray(value)) {
    return items === undefined || value.every((each) => fits(each, items));
  }
  if (!isRecord(value)) return true;
  const hasAll = required?.every((name) => value[name] !== undefined) ?? true;
  return (
    hasAll &&
    Object.entries(properties ?? {}).every(([name, schema]) => {
      return value[name] === undefined || fits(value[name], schema);
    })
  );
}

function isOfType(value: unknown, type: string): boolean {
  switch (type) {
    case "null":
      return value === null;
    case "array":
      return Array.isArray(value);
    case "object":
      return isRecord(value);
    case "number":
      return Number.isFinite(value);
    case "integer":
      return Number.isInteger(value);
    default:
      return typeof value === type;
  }
}

function recordOf(value: unknown): Values {
  return isRecord(value) ? value : {};
}
