/** What a description says about one operation, as far as buyers and catalogues are told about it. */
import {
  listOf,
  own,
  recordOf,
  resolved,
  textOf,
  type Description,
  type DescriptionValues,
} from "./description.ts";

export interface QueryParameter {
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
  readonly queryParams: Readonly<Record<string, QueryParameter>>;
}

/** Longest description that is kept, characters: catalogues may cut what is longer. */
const MAX_DESCRIPTION = 200;
/** Longest description of a parameter, characters. */
const MAX_PARAMETER_TEXT = 120;
const MAX_PARAMETERS = 40;
const MAX_ENUM = 30;
/** As the configuration accepts them. */
const MIME_TYPE = /^[\w.+-]+\/[\w.+*-]+(?: *;[\x20-\x7e]*)?$/;

export function readOperation(
  description: Description,
  item: DescriptionValues,
  operation: DescriptionValues,
): OperationTerms {
  const said = ["summary", "description", "operationId"].map((name) => oneLine(operation[name]));
  const text = said.find((each) => each !== "") ?? oneLine(item["summary"]);
  return {
    description: clipped(text === "" ? "One request" : text, MAX_DESCRIPTION),
    mimeType: mimeTypeOf(description, operation),
    queryParams: queryParamsOf(description, item, operation),
  };
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

/** JSON where the answer may be JSON, else the first type that is named. */
function mimeTypeOf({ root, isSwagger }: Description, operation: DescriptionValues): string {
  const responses = recordOf(operation["responses"]);
  const code = ["200", "201", "2XX", "2xx", "default"].find(
    (each) => own(responses, each) !== undefined,
  );
  const response = code === undefined ? {} : (resolved(own(responses, code), root) ?? {});
  const types = isSwagger
    ? [operation["produces"], root["produces"]].map(listOf).find((each) => each.length > 0)
    : Object.keys(recordOf(response["content"]));
  const usable = (types ?? []).map(textOf).filter((type) => MIME_TYPE.test(type));
  return usable.find((type) => /^application\/json\b/.test(type)) ?? usable[0] ?? "";
}

function queryParamsOf(
  { root }: Description,
  item: DescriptionValues,
  operation: DescriptionValues,
): Readonly<Record<string, QueryParameter>> {
  // The operation's own parameters replace those of its path with the same name.
  const all = [...listOf(item["parameters"]), ...listOf(operation["parameters"])];
  const named = new Map<string, QueryParameter>();
  for (const written of all) {
    const parameter = resolved(written, root) ?? {};
    const name = textOf(parameter["name"]);
    const isUsable = parameter["in"] === "query" && /^[\x21-\x7e]{1,64}$/.test(name);
    // The configuration, like everything that is careful, has no such key.
    if (!isUsable || name === "__proto__" || named.size >= MAX_PARAMETERS) continue;
    named.set(name, readParameter(parameter, root));
  }
  return Object.fromEntries(named);
}

function readParameter(parameter: DescriptionValues, root: DescriptionValues): QueryParameter {
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
