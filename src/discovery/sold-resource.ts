/**
 * What a payment that somebody settled through us says of the resource that it was for: what of it may stand in
 * the listing, or why nothing may. A seller says what it likes, so nothing is taken but URLs that are its own, and
 * nothing of a buyer: of a URL no query is listed, and a route with parameters as its template.
 */
import { err, ok, type Result } from "../x402/result.ts";
import type { PaymentRequirements } from "../x402/x402.ts";
import { isRecord } from "../x402/json.ts";

/** Longest URL that is listed, characters. */
const MAX_RESOURCE_LENGTH = 2_048;
/** Longest requirement that is listed, characters of its JSON. */
const MAX_TERMS_LENGTH = 8_192;
const METHOD = /^[A-Za-z]{1,16}$/;
const VARIABLE = /^:[A-Za-z0-9_-]{1,64}$/;

export interface SoldTerms {
  /** Absolute URL without query; of a route with parameters its template. */
  readonly resource: string;
  /** Upper case. */
  readonly method: string;
  /** As it is listed: for `resource`. */
  readonly requirements: PaymentRequirements;
}

/** What is told to the seller. */
export type Unlisted =
  | "outputSchema.input.discoverable is not true"
  | "outputSchema.input.type is not http, or its method is none"
  | "resource is no http or https URL"
  | "resource is longer than the listing takes"
  | "resource is under no URL that this gateway may list"
  | "outputSchema.input.routeTemplate does not fit resource"
  | "its terms are longer than the listing takes";

/**
 * Reads a requirement that was paid (protocol section 2.1). `urls`: what its seller may list, in canonical form
 * without a slash at the end.
 */
export function readSoldTerms(
  requirements: PaymentRequirements,
  urls: readonly string[],
): Result<SoldTerms, Unlisted> {
  const { discoverable, type, method, routeTemplate } = inputOf(requirements);
  if (discoverable !== true) return err("outputSchema.input.discoverable is not true");
  if (type !== "http" || typeof method !== "string" || !METHOD.test(method)) {
    return err("outputSchema.input.type is not http, or its method is none");
  }
  const resource = resourceOf(requirements.resource, routeTemplate);
  if (!resource.ok) return resource;
  if (!isListable(resource.value, urls)) {
    return err("resource is under no URL that this gateway may list");
  }
  const listed = { ...requirements, resource: resource.value };
  if (JSON.stringify(listed).length > MAX_TERMS_LENGTH) {
    return err("its terms are longer than the listing takes");
  }
  return ok({ resource: resource.value, method: method.toUpperCase(), requirements: listed });
}

/** Whether a URL is one of those, or under one of them. */
export function isListable(resource: string, urls: readonly string[]): boolean {
  return urls.some((url) => resource === url || resource.startsWith(`${url}/`));
}

/** What a listed requirement says of a route with parameters; undefined where it has none. */
export function templateOf(
  requirements: PaymentRequirements,
): { readonly pathParams: Readonly<Record<string, unknown>> } | undefined {
  const { routeTemplate, pathParams } = inputOf(requirements);
  if (routeTemplate === undefined) return undefined;
  return { pathParams: isRecord(pathParams) ? pathParams : {} };
}

function inputOf({ outputSchema }: PaymentRequirements): Readonly<Record<string, unknown>> {
  const input = outputSchema?.["input"];
  return isRecord(input) ? input : {};
}

/** The URL that is listed, as URLs are written (WHATWG): a path that is spelt otherwise is the same path. */
function resourceOf(written: string, routeTemplate: unknown): Result<string, Unlisted> {
  const url = /^https?:\/\//i.test(written) ? URL.parse(written) : null;
  if (url === null || url.username !== "" || url.password !== "") {
    return err("resource is no http or https URL");
  }
  const { origin, pathname } = url;
  if (routeTemplate !== undefined && !fits(origin, pathname, routeTemplate)) {
    return err("outputSchema.input.routeTemplate does not fit resource");
  }
  const path = typeof routeTemplate === "string" ? routeTemplate : pathname;
  const resource = `${origin}${path}`;
  if (resource.length > MAX_RESOURCE_LENGTH)
    return err("resource is longer than the listing takes");
  return ok(resource);
}

/** Whether a path is one of a template's, which is written as URLs are: `/reports/:id`, `/files/*`. */
function fits(origin: string, path: string, template: unknown): boolean {
  if (typeof template !== "string" || URL.parse(origin + template)?.pathname !== template) {
    return false;
  }
  const wanted = template.split("/");
  const given = path.split("/");
  const hasRest = wanted.at(-1) === "*";
  if (hasRest ? given.length < wanted.length : given.length !== wanted.length) return false;
  return wanted.every((segment, index) => {
    if (segment === "*") return index === wanted.length - 1;
    if (segment.startsWith(":")) return VARIABLE.test(segment) && given[index] !== "";
    return segment === given[index];
  });
}
