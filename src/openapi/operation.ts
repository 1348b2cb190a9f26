/** What a description says about one operation: what buyers and catalogues are told, and whether it is to be sold. */
import {
  listOf,
  own,
  recordOf,
  resolved,
  textOf,
  type Description,
  type DescriptionValues,
} from "./description.ts";
import { asNewer } from "./newer-schemas.ts";

export interface Parameter {
  readonly type?: string;
  readonly required?: true;
  readonly description?: string;
  readonly enum?: readonly (string | number | boolean)[];
}

export interface OperationTerms {
  /** One line, never "". */
  readonly description: string;
  /** Of the answer 200; "" where it is not said. */
  readonly mimeType: string;
  readonly queryParams: Parameters;
  readonly headerFields: Parameters;
  /** By the name that the description has for them. */
  readonly pathParams: Parameters;
  readonly body: BodyTerms | null;
  /** JSON Schema of the answer; null where it is not said, or too large. */
  readonly outputSchema: DescriptionValues | null;
  /** Who it is for: `members` have what its `security` names, and the operator looks at what is `internal`. */
  readonly audience: "buyers" | "members" | "health" | "internal";
}

export type Parameters = Readonly<Record<string, Parameter>>;

export interface BodyTerms {
  readonly type: (typeof BODY_TYPES)[number][0];
  /** JSON Schema of each field, `required: true` where it has to be there; {}: it is not said, or too large. */
  readonly fields: DescriptionValues;
}

/** What each is called by the configuration; the first that an operation takes is meant. */
const BODY_TYPES = [
  ["json", /^application\/(?:[\w.+-]+\+)?json\b/],
  ["form-data", /^application\/x-www-form-urlencoded\b/],
  ["multipart-form-data", /^multipart\/form-data\b/],
  ["text", /^text\//],
  ["binary", /./],
] as const;

/** Longest description that is kept, characters: catalogues may cut what is longer. */
const MAX_DESCRIPTION = 200;
/** Longest description of a parameter, characters. */
const MAX_PARAMETER_TEXT = 120;
const MAX_PARAMETERS = 40;
const MAX_ENUM = 30;
/** Longest schema that is kept, characters of JSON, and how deep references may lie in one another. */
const MAX_SCHEMA = 4_000;
const MAX_NESTED = 8;
/** Paths that tell whether a backend is well, and those that are nobody's but the operator's, by their last segment. */
const HEALTH =
  /\/(?:_?health(?:z|check)?|livez?|liveness|readyz?|readiness|startupz?|ping|heartbeat)$/i;
const INTERNAL = /\/(?:metrics|debug|actuator|admin|internal)(?:\/|$)/i;
/** What a client, or the protocol, writes itself. */
const OWN_HEADERS = /^(?:accept|content-type|authorization|cookie|x-payment|payment-signature)$/i;
/** As the configuration accepts them. */
const MIME_TYPE = /^[\w.+-]+\/[\w.+*-]+(?: *;[\x20-\x7e]*)?$/;

export function readOperation(
  description: Description,
  item: DescriptionValues,
  operation: DescriptionValues,
  path: string,
): OperationTerms {
  const said = ["summary", "description", "operationId"].map((name) => oneLine(operation[name]));
  const text = said.find((each) => each !== "") ?? oneLine(item["summary"]);
  return {
    description: clipped(text === "" ? "One request" : text, MAX_DESCRIPTION),
    mimeType: mimeTypeOf(description, operation),
    queryParams: parametersOf("query", description, item, operation),
    headerFields: parametersOf("header", description, item, operation),
    pathParams: parametersOf("path", description, item, operation),
    body: bodyOf(description, item, operation),
    outputSchema: outputSchemaOf(description, operation),
    audience: audienceOf(description, operation, path),
  };
}

/** What anybody may call without a credential is for buyers (OpenAPI 3, Security Requirement Object). */
function audienceOf(
  { root }: Description,
  operation: DescriptionValues,
  path: string,
): OperationTerms["audience"] {
  if (HEALTH.test(path)) return "health";
  if (INTERNAL.test(path)) return "internal";
  const security = listOf(operation["security"] ?? root["security"]);
  const isOpen = security.some((each) => Object.keys(recordOf(each)).length === 0);
  return security.length > 0 && !isOpen ? "members" : "buyers";
}

/** White space and what does not print become single spaces. */
function oneLine(value: unknown): string {
  return textOf(value)
    .toWellFormed()
    .replace(/[\s\p{Cc}\p{Cf}\p{Zl}\p{Zp}\ufffd]+/gu, " ")
    .trim();
}

/** At a word's end, where there is one. */
function clipped(text: string, length: number): string {
  if (text.length <= length) return text;
  const cut = text
    .slice(0, length - 1)
    .toWellFormed()
    .replaceAll("\ufffd", "");
  const end = cut.lastIndexOf(" ");
  return `${end > length / 2 ? cut.slice(0, end) : cut}…`;
}

/** The answer to whoever asks rightly. */
function answerOf({ root }: Description, operation: DescriptionValues): DescriptionValues {
  const responses = recordOf(operation["responses"]);
  const code = ["200", "201", "2XX", "2xx", "default"].find(
    (each) => own(responses, each) !== undefined,
  );
  return code === undefined ? {} : (resolved(own(responses, code), root) ?? {});
}

function outputSchemaOf(
  description: Description,
  operation: DescriptionValues,
): DescriptionValues | null {
  const answer = answerOf(description, operation);
  const content = recordOf(answer["content"]);
  const json = Object.keys(content).find((type) => BODY_TYPES[0][1].test(type));
  const written = description.isSwagger
    ? answer["schema"]
    : json === undefined
      ? undefined
      : recordOf(own(content, json))["schema"];
  return schemaOf(description, written) ?? null;
}

function bodyOf(
  description: Description,
  item: DescriptionValues,
  operation: DescriptionValues,
): BodyTerms | null {
  const { root, isSwagger } = description;
  if (isSwagger) return swaggerBodyOf(description, item, operation);
  const body = resolved(operation["requestBody"], root);
  if (body === null) return null;
  const content = recordOf(body["content"]);
  for (const [type, form] of BODY_TYPES) {
    const name = Object.keys(content).find((each) => form.test(each));
    if (name === undefined) continue;
    const { schema } = recordOf(own(content, name));
    return { type, fields: fieldsOf(schemaOf(description, schema)) };
  }
  return null;
}

/** One parameter `in: body`, or any number of them in a form. */
function swaggerBodyOf(
  description: Description,
  item: DescriptionValues,
  operation: DescriptionValues,
): BodyTerms | null {
  const all = [...listOf(item["parameters"]), ...listOf(operation["parameters"])];
  const parameters = all.map((each) => resolved(each, description.root) ?? {});
  const whole = parameters.find((each) => each["in"] === "body");
  if (whole !== undefined) {
    return { type: "json", fields: fieldsOf(schemaOf(description, whole["schema"])) };
  }
  const isForm = parameters.some((each) => each["in"] === "formData");
  const fields = parametersOf("formData", description, item, operation);
  const isMultipart = listOf(operation["consumes"] ?? description.root["consumes"])
    .map(textOf)
    .some((type) => BODY_TYPES[2][1].test(type));
  return isForm ? { type: isMultipart ? "multipart-form-data" : "form-data", fields } : null;
}

/** Of an object; {} of anything else, whose members the configuration has no words for. */
function fieldsOf(schema: DescriptionValues | undefined): DescriptionValues {
  const required = new Set(listOf(schema?.["required"]));
  const fields = Object.entries(recordOf(schema?.["properties"])).map(([name, written]) => {
    const field = recordOf(written);
    // There `required` of an object lists its members: that is kept rather than that it has to be there itself.
    const isMarked = required.has(name) && !Array.isArray(field["required"]);
    return [name, isMarked ? { ...field, required: true } : field] as const;
  });
  return Object.fromEntries(fields.filter(([name]) => name !== "__proto__"));
}

/** With what its references lead to in their places, as OpenAPI 3.1 has it; undefined where that is too much. */
function schemaOf({ root, form }: Description, written: unknown): DescriptionValues | undefined {
  let left = MAX_SCHEMA;
  const inlined = (value: unknown, nested: number): unknown => {
    if (typeof value !== "object" || value === null) {
      left -= String(value).length;
      return value;
    }
    if (nested > MAX_NESTED || left < 0) throw TOO_LARGE;
    if (Array.isArray(value)) return value.map((each) => inlined(each, nested));
    const target = resolved(value, root);
    if (target === null) throw TOO_LARGE;
    const isReference = Object.hasOwn(value, "$ref");
    const members = Object.entries(target).filter(([name]) => !name.startsWith("x-"));
    return Object.fromEntries(
      members.map(([name, member]) => {
        left -= name.length;
        return [name, inlined(member, isReference ? nested + 1 : nested)] as const;
      }),
    );
  };
  if (written === undefined) return undefined;
  try {
    const schema = recordOf(inlined(written, 0));
    return recordOf(form.startsWith("OpenAPI 3.1") ? schema : asNewer(schema));
  } catch (cause) {
    if (cause === TOO_LARGE) return undefined;
    throw cause;
  }
}

const TOO_LARGE = new RangeError("a schema that is too large, or leads nowhere");

/** JSON where the answer may be JSON, else the first type that is named. */
function mimeTypeOf(description: Description, operation: DescriptionValues): string {
  const { root, isSwagger } = description;
  const response = answerOf(description, operation);
  const types = isSwagger
    ? [operation["produces"], root["produces"]].map(listOf).find((each) => each.length > 0)
    : Object.keys(recordOf(response["content"]));
  const usable = (types ?? []).map(textOf).filter((type) => MIME_TYPE.test(type));
  return usable.find((type) => /^application\/json\b/.test(type)) ?? usable[0] ?? "";
}

function parametersOf(
  place: "query" | "header" | "path" | "formData",
  { root }: Description,
  item: DescriptionValues,
  operation: DescriptionValues,
): Readonly<Record<string, Parameter>> {
  // The operation's own parameters replace those of its path with the same name.
  const all = [...listOf(item["parameters"]), ...listOf(operation["parameters"])];
  const named = new Map<string, Parameter>();
  for (const written of all) {
    const parameter = resolved(written, root) ?? {};
    const name = textOf(parameter["name"]);
    const isTheirs = place !== "header" || !OWN_HEADERS.test(name);
    const isUsable = parameter["in"] === place && isTheirs && /^[\x21-\x7e]{1,64}$/.test(name);
    // The configuration, like everything that is careful, has no such key.
    if (!isUsable || name === "__proto__" || named.size >= MAX_PARAMETERS) continue;
    named.set(name, readParameter(parameter, root));
  }
  return Object.fromEntries(named);
}

function readParameter(parameter: DescriptionValues, root: DescriptionValues): Parameter {
  // Swagger 2 has the members of the schema in the parameter itself.
  const schema = resolved(parameter["schema"], root) ?? {};
  const type = [schema["type"] ?? parameter["type"]].flat().find((each) => each !== "null");
  const values = listOf(schema["enum"] ?? parameter["enum"])
    .filter((each) => ["string", "number", "boolean"].includes(typeof each))
    .map((each) => (typeof each === "string" ? oneLine(each) : (each as number | boolean)));
  const description = clipped(oneLine(parameter["description"]), MAX_PARAMETER_TEXT);
  return {
    ...(typeof type === "string" && /^[a-z]{1,10}$/.test(type) ? { type } : {}),
    ...(parameter["required"] === true ? { required: true } : {}),
    ...(description === "" ? {} : { description }),
    ...(values.length === 0 || values.length > MAX_ENUM ? {} : { enum: values }),
  };
}
