/** A priced route as an operation of an OpenAPI 3.1 document. */
import { declaredExample } from "../x402/declared-example.ts";
import { JSON_TYPES } from "../x402/json.ts";
import type { Versions } from "../x402/how-to-pay.ts";
import type { PaymentRequirements } from "../x402/x402.ts";
import { recordOf, textOf, type DescriptionValues } from "./description.ts";
import {
  PAYMENT_HEADER,
  paymentInfo,
  paymentParameters,
  receiptHeaders,
  REQUIRED_RESPONSE,
} from "./payment-parts.ts";

/** What is sold at one path, to one or more methods. */
export interface SoldRoute {
  /** Null: any. */
  readonly methods: readonly string[] | null;
  /** The path with `{name}` for each variable; below the public URL. */
  readonly path: string;
  /** Names of its variables in their order. */
  readonly variables: readonly string[];
  readonly description: string;
  /** How it is had beside a payment for each request: sentences without a final period. */
  readonly ways?: readonly string[];
  /** "": not known. */
  readonly mimeType: string;
  /** What the configuration says of each part of a request, by name. */
  readonly input: {
    readonly queryParams?: DescriptionValues;
    readonly bodyType?: keyof typeof BODY_TYPES;
    readonly bodyFields?: DescriptionValues;
    readonly headerFields?: DescriptionValues;
    readonly pathParams?: DescriptionValues;
  };
  readonly outputSchema: DescriptionValues | null;
  /** Short words for what it is about. */
  readonly tags: readonly string[];
  /** The ways to pay that are offered now. */
  readonly accepts: readonly PaymentRequirements[];
  /** `0.001`: dollars of the cheapest request, where each has its own price; `accepts` has the most then. */
  readonly least?: string | undefined;
}

const BODY_TYPES = {
  json: "application/json",
  "form-data": "application/x-www-form-urlencoded",
  "multipart-form-data": "multipart/form-data",
  text: "text/plain",
  binary: "application/octet-stream",
} as const;

/** Methods whose body means nothing (RFC 9110 section 9.3). */
const BODILESS: ReadonlySet<string> = new Set(["GET", "HEAD", "DELETE", "OPTIONS"]);
/** What a client writes itself. */
const OWN_HEADERS = /^(?:accept|content-type|authorization)$/i;

/** `names`: what the document calls the variables, in place of the route's own names. */
export function writeOperation(
  route: SoldRoute,
  method: string,
  names: readonly string[],
  versions: Versions,
): DescriptionValues {
  const { description, input, accepts, ways = [] } = route;
  const known = recordOf(input.pathParams);
  const variables = names.map((name, index) => {
    const told = ownOf(known, route.variables[index] ?? "");
    return { ...parameter("path", name, told), required: true };
  });
  const query = parametersOf("query", input.queryParams);
  const headers = parametersOf("header", input.headerFields).filter(
    ({ name }) => !OWN_HEADERS.test(textOf(name)) && !PAYMENT_HEADER.test(textOf(name)),
  );
  const parameters = [...variables, ...query, ...headers, ...paymentParameters(versions)];
  const body = BODILESS.has(method) ? null : bodyOf(input);
  return {
    operationId: operationId(method, route.path),
    ...(description === "" ? {} : { summary: description }),
    ...(ways.length > 0 && { description: ways.map((way) => `${way}.`).join(" ") }),
    ...(route.tags.length > 0 && { tags: route.tags }),
    parameters,
    ...(body === null ? {} : { requestBody: body }),
    responses: { "200": answerOf(route, versions), "402": REQUIRED_RESPONSE },
    security: [],
    "x-payment-info": paymentInfo(accepts, versions, route.least),
  };
}

function operationId(method: string, path: string): string {
  const words = path.replace(/[^A-Za-z0-9]+/g, "_").replace(/^_|_$/g, "");
  return `${method.toLowerCase()}_${words}`;
}

function answerOf({ mimeType, outputSchema }: SoldRoute, versions: Versions): DescriptionValues {
  const type = mimeType === "" && outputSchema !== null ? "application/json" : mimeType;
  const example = declaredExample(outputSchema);
  const schema = outputSchema === null ? {} : { schema: outputSchema };
  const described = example === undefined ? schema : { ...schema, example };
  return {
    description: "What was paid for.",
    headers: receiptHeaders(versions),
    ...(type === "" ? {} : { content: { [type]: described } }),
  };
}

function parametersOf(
  place: "query" | "header",
  described: DescriptionValues = {},
): readonly DescriptionValues[] {
  return Object.entries(described).map(([name, told]) => parameter(place, name, told));
}

function parameter(
  place: "path" | "query" | "header",
  name: string,
  told: unknown,
): DescriptionValues {
  const { required, description, ...schema } = recordOf(
    typeof told === "string" ? said(told) : told,
  );
  return {
    name,
    in: place,
    ...(required === true ? { required } : {}),
    ...(typeof description === "string" ? { description } : {}),
    schema: schemaOf(schema),
  };
}

/** In place of a map some write only a type, or a sentence. */
function said(text: string): DescriptionValues {
  return JSON_TYPES.has(text) ? { type: text } : { type: "string", description: text };
}

/** Types are the configuration's free text; a word that JSON Schema does not have would spoil the document. */
function schemaOf({ type, ...rest }: DescriptionValues): DescriptionValues {
  const types = Array.isArray(type) ? type : [type];
  return types.every((each) => JSON_TYPES.has(each))
    ? { type, ...rest }
    : { type: "string", ...rest };
}

function bodyOf({ bodyType, bodyFields }: SoldRoute["input"]): DescriptionValues | null {
  if (bodyType === undefined && bodyFields === undefined) return null;
  const fields = Object.entries(recordOf(bodyFields)).map(([name, told]) => {
    const field = recordOf(typeof told === "string" ? said(told) : told);
    // In an object's member `required` is a list of names; here it says whether the member is.
    const { required, ...schema } = field;
    const isRequired = required === true;
    const isList = Array.isArray(required);
    return { name, isRequired, schema: schemaOf(isList ? { ...schema, required } : schema) };
  });
  const required = fields.filter(({ isRequired }) => isRequired).map(({ name }) => name);
  const properties = Object.fromEntries(fields.map(({ name, schema }) => [name, schema]));
  const schema = {
    type: "object",
    properties,
    ...(required.length === 0 ? {} : { required }),
  };
  const type = BODY_TYPES[bodyType ?? "json"];
  return { required: true, content: { [type]: fields.length === 0 ? {} : { schema } } };
}

function ownOf(values: DescriptionValues, name: string): unknown {
  return Object.hasOwn(values, name) ? values[name] : undefined;
}
