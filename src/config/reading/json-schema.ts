/**
 * The configuration file as JSON Schema, from the same shapes that read it, for editors: they complete keys,
 * explain them and mark what no reader would take. What values mean together is for `check` to say.
 */
import { z } from "zod";
import { documentSchema } from "../document.ts";

type Json = Readonly<Record<string, unknown>>;

/** What every editor understands that understands JSON Schema at all. */
const DRAFT = "draft-7";
const COMMENT = "Written by `coinslot schema`. Renew it with `npm run schema`.";

/** The keywords of a condition; the second one is no name for the key of an object that may be awaited. */
const [IF, THEN] = ["if", "then"] as const;
const WITH_ROUTES: Json = {
  [IF]: { required: ["routes"], properties: { routes: { minProperties: 1 } } },
  [THEN]: { required: ["publicUrl", "unmatched"] },
};

/** What a schema says to people; the rest of it is what it demands. */
const ANNOTATIONS = ["title", "description", "default", "examples"] as const;

/** In place of any value, which is then filled in from the environment. */
const PLACEHOLDER = String.raw`\$\{`;
const PLACEHOLDER_NAME = "placeholder";
const PLACEHOLDER_REFERENCE = { $ref: `#/definitions/${PLACEHOLDER_NAME}` };

/** The schema as text, ending with a line break. */
export function jsonSchemaText(): string {
  return `${JSON.stringify(jsonSchema(), null, 2)}\n`;
}

export function jsonSchema(): Json {
  const { $schema, ...root } = z.toJSONSchema(documentSchema, {
    io: "input",
    target: DRAFT,
    unrepresentable: "any",
    override: ({ zodSchema, jsonSchema: found }) => {
      // zod leaves out the default of a value that is transformed; here it is as one would write it.
      if (zodSchema instanceof z.ZodPrefault) delete found.default;
      const { form, ...said } = z.globalRegistry.get(zodSchema) ?? {};
      Object.assign(found, said);
      if (form === undefined) return;
      for (const key of Object.keys(found)) {
        if (!ANNOTATIONS.some((each) => each === key)) delete found[key];
      }
      Object.assign(found, form);
    },
  });
  return {
    $schema,
    $comment: COMMENT,
    ...simplified(root),
    ...WITH_ROUTES,
    definitions: {
      [PLACEHOLDER_NAME]: {
        type: "string",
        pattern: PLACEHOLDER,
        patternErrorMessage: "must be one of those, or a placeholder such as ${NAME}",
      },
    },
  };
}

/** One alternative for each thing that may be written, none for what is always refused. */
function simplified(schema: Json): Json {
  const said: Record<string, unknown> = {};
  for (const key of ANNOTATIONS) if (key in schema) said[key] = schema[key];
  const demanded = Object.fromEntries(Object.entries(schema).filter(([key]) => !(key in said)));
  const { description, default: standard } = schema;
  if (typeof description === "string" && standard !== undefined) {
    said["description"] = `${description} Default: ${asWritten(standard)}.`;
  }
  const all = alternatives(demanded);
  const accepted = all.some(admitsPlaceholder)
    ? all.filter((each) => each !== PLACEHOLDER_REFERENCE)
    : [...new Set(all)];
  const [only, ...others] = accepted;
  return others.length === 0 ? { ...said, ...only } : { ...said, anyOf: accepted };
}

function alternatives(schema: Json): readonly Json[] {
  const { anyOf, not, type, pattern, enum: words } = schema;
  if (not !== undefined) return [];
  if (Array.isArray(anyOf)) return anyOf.flatMap((each) => alternatives(each as Json));
  if (type === "string" && typeof pattern === "string") {
    return [{ ...schema, pattern: `${pattern}|${PLACEHOLDER}` }];
  }
  const isText = type === "string";
  const isScalar =
    words !== undefined || type === "integer" || type === "number" || type === "boolean";
  return isScalar && !isText ? [schema, PLACEHOLDER_REFERENCE] : [collection(schema)];
}

function admitsPlaceholder({ type, pattern, enum: words }: Json): boolean {
  if (type !== "string" || words !== undefined) return false;
  return typeof pattern !== "string" || pattern.endsWith(PLACEHOLDER);
}

/** The keys of maps and the elements of lists are simplified; what is free stays as it is. */
function collection(schema: Json): Json {
  const { properties, items, additionalProperties } = schema;
  return {
    ...schema,
    ...(isJson(properties) ? { properties: mapValues(properties, simplified) } : {}),
    ...(isJson(items) ? { items: simplified(items) } : {}),
    ...(isJson(additionalProperties)
      ? { additionalProperties: simplified(additionalProperties) }
      : {}),
  };
}

function mapValues(map: Json, change: (value: Json) => Json): Json {
  return Object.fromEntries(
    Object.entries(map).map(([key, value]) => [key, isJson(value) ? change(value) : value]),
  );
}

function isJson(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** As it would stand in the file, within backquotes. */
function asWritten(value: unknown): string {
  return `\`${typeof value === "string" && value !== "" ? value : JSON.stringify(value)}\``;
}
