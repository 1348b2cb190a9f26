/**
 * The OpenAPI 3.1 document that buyers get: the priced routes, or the backend's own description with only
 * what buyers may ask for, and what it costs. Written from the configuration alone; nothing is fetched.
 */
import { howToPay, versionWords, type Versions } from "../x402/how-to-pay.ts";
import { listOf, own, recordOf, resolved, textOf, type DescriptionValues } from "./description.ts";
import { FreeNames } from "./free-names.ts";
import { asNewer } from "./newer-schemas.ts";
import { basePathOf, METHODS, patternOf } from "./openapi.ts";
import {
  PAYMENT_HEADER,
  paymentInfo,
  paymentParameters,
  receiptHeaders,
  REQUIRED_RESPONSE,
  withPaymentParts,
} from "./payment-parts.ts";
import { selfContained } from "./references.ts";
import { writeOperation, type SoldRoute } from "./sold-operation.ts";
import { usedComponents } from "./used-components.ts";

/** Operations that are written of routes; the listing has all of them. */
const MAX_WRITTEN_OPERATIONS = 2_000;

/** In the place of a variable, where somebody asks what becomes of a path: no route has such a segment. */
const SAMPLE = "x402-sample-segment";

/** In the place of answers that the backend does not describe, or describes in another file. */
const NOT_DESCRIBED: DescriptionValues = { default: { description: "Not described." } };

/** What becomes of an operation of the backend. */
export type PublishedFate =
  | ({ readonly kind: "sold" } & Pick<SoldRoute, "accepts" | "least">)
  /** Passed on without payment. */
  | { readonly kind: "free" }
  /** Not for buyers, or not for everyone to know. */
  | { readonly kind: "hidden" };

export interface Publishing {
  /** Absolute, without a slash at its end. */
  readonly publicUrl: string;
  /** Absolute URLs of the discovery listing, in the form of each version; null: there is none. */
  readonly listing: string | null;
  readonly listingV2: string | null;
  /** Whom to write to: an email address, or the URL of a page. Null: nobody is named. */
  readonly contact: string | null;
  /** What is sold and may be known, in the order of the listing. */
  readonly sold: readonly SoldRoute[];
  readonly versions: Versions;
  /** OpenAPI 3.0 or 3.1; null: the routes are all there is. */
  readonly description: DescriptionValues | null;
  /** Of a canonical path; asked only where there is a description. */
  readonly fateOf: (method: string, path: string) => PublishedFate;
}

/** JSON text. */
export function writeOpenApi(publishing: Publishing): string {
  const { publicUrl, listing, listingV2, description, sold, versions } = publishing;
  const listings = Object.entries({ listing, listingV2 }).filter(([, url]) => url !== null);
  const root = description === null ? {} : selfContained(recordOf(asNewer(description)));
  const paths = new Paths();
  if (description !== null) addDescribed(paths, root, publishing);
  for (const route of sold) paths.addRoute(route, versions);
  const { info, tags, externalDocs, security, components, jsonSchemaDialect } = root;
  const kept = Object.entries({
    tags: usedTags(tags, paths.written),
    externalDocs: textOf(recordOf(externalDocs)["url"]) === "" ? undefined : externalDocs,
    security: Array.isArray(security) ? security : undefined,
    jsonSchemaDialect,
  }).filter(([, value]) => value !== undefined);
  return JSON.stringify({
    openapi: "3.1.0",
    info: infoOf(recordOf(info), publishing, paths.omitted),
    servers: [{ url: publicUrl }],
    ...Object.fromEntries(kept),
    ...(listings.length > 0 && { "x-discovery": Object.fromEntries(listings) }),
    paths: paths.written,
    components: withPaymentParts(
      usedComponents(recordOf(components), paths.written, listOf(security)),
      versions,
    ),
  });
}

/** Those that some operation has: as the backend describes them, and by their names alone. */
function usedTags(tags: unknown, paths: DescriptionValues): readonly unknown[] | undefined {
  const operations = Object.values(paths).flatMap((item) => Object.values(recordOf(item)));
  const used = new Set<unknown>(operations.flatMap((each) => listOf(recordOf(each)["tags"])));
  const told = listOf(tags).filter((tag) => used.has(recordOf(tag)["name"]));
  for (const tag of told) used.delete(recordOf(tag)["name"]);
  const all = [...told, ...[...used].map((name) => ({ name }))];
  return all.length === 0 ? undefined : all;
}

function infoOf(
  info: DescriptionValues,
  { publicUrl, versions, contact }: Publishing,
  omitted: number,
): DescriptionValues {
  const { host } = new URL(publicUrl);
  const about = `What ${host} sells. Operations with a price are paid for with each request (x402, ${versionWords(versions)}).`;
  const more = omitted === 0 ? "" : ` ${omitted} more are in the discovery listing only.`;
  const { title, version, description, "x-guidance": guidance } = info;
  const named = contact === null ? {} : { [contact.includes("@") ? "email" : "url"]: contact };
  return {
    ...info,
    title: textOf(title) === "" ? host : title,
    version: textOf(version) === "" ? "1.0.0" : version,
    description: textOf(description) === "" ? about + more : description,
    // Registries of paid APIs ask for it.
    ...(contact !== null && { contact: { ...recordOf(info["contact"]), ...named } }),
    // They give it to agents.
    "x-guidance": textOf(guidance) === "" ? howToPay(versions).join("\n") : guidance,
  };
}

type Item = Record<string, unknown>;

/** The paths of a document: those that differ in nothing but the names of their variables are one. */
class Paths {
  readonly #byShape = new Map<string, { readonly path: string; readonly item: Item }>();
  readonly #ids = new FreeNames();
  #count = 0;
  /** Operations that were left out. */
  omitted = 0;

  get written(): DescriptionValues {
    return Object.fromEntries([...this.#byShape.values()].map(({ path, item }) => [path, item]));
  }

  addDescribed(
    path: string,
    method: string,
    members: DescriptionValues,
    operation: DescriptionValues,
  ): void {
    const { item } = this.#at(path);
    if (Object.keys(item).length === 0) Object.assign(item, members);
    item[method] = this.#withFreeId(operation);
  }

  /** Methods that are described already stay as they are. */
  addRoute(route: SoldRoute, versions: Versions): void {
    const { path, item } = this.#at(route.path);
    const names = variablesOf(path);
    const wanted = route.methods?.map((method) => method.toLowerCase()) ?? METHODS;
    for (const method of METHODS) {
      // HEAD costs what GET does, and no client asks a document for it.
      const isWanted = wanted.includes(method) && (route.methods !== null || method !== "head");
      if (!isWanted || Object.hasOwn(item, method)) continue;
      if (this.#count >= MAX_WRITTEN_OPERATIONS) {
        this.omitted += 1;
        continue;
      }
      this.#count += 1;
      item[method] = this.#withFreeId(writeOperation(route, method.toUpperCase(), names, versions));
    }
    if (Object.keys(item).length === 0) this.#byShape.delete(shapeOf(path));
  }

  #at(path: string): { readonly path: string; readonly item: Item } {
    const shape = shapeOf(path);
    const known = this.#byShape.get(shape) ?? { path, item: {} };
    this.#byShape.set(shape, known);
    return known;
  }

  /** The ids of all operations differ (OpenAPI 3.1, section 4.8.10.1). */
  #withFreeId(operation: DescriptionValues): DescriptionValues {
    const written = textOf(operation["operationId"]);
    if (written === "") return operation;
    return { ...operation, operationId: this.#ids.take(written) };
  }
}

function shapeOf(path: string): string {
  return path.replace(/\{[^{}]*\}/g, "{}");
}

function variablesOf(path: string): readonly string[] {
  return [...path.matchAll(/\{([^{}]*)\}/g)].map(([, name = ""]) => name);
}

function addDescribed(paths: Paths, root: DescriptionValues, publishing: Publishing): void {
  const { fateOf } = publishing;
  const description = { root, form: "", isSwagger: false };
  for (const [path, written] of Object.entries(recordOf(root["paths"]))) {
    const item = path.startsWith("/") ? resolved(written, root) : null;
    if (item === null) continue;
    const { summary, description: text, parameters } = item;
    const shared = Object.entries({ summary, description: text, parameters });
    const members = Object.fromEntries(shared.filter(([, value]) => value !== undefined));
    for (const method of METHODS) {
      const operation = own(item, method);
      if (operation === undefined) continue;
      const base = basePathOf(description, item, recordOf(operation));
      const whole = base.ok ? `${base.value}${path}` : "";
      // Of a path that no route can have nobody can say what becomes of it.
      if (whole === "" || !patternOf(whole).ok) continue;
      const fate = fateOf(method.toUpperCase(), whole.replace(/\{[^{}]*\}/g, SAMPLE));
      if (fate.kind === "hidden") continue;
      const shown =
        fate.kind === "free" ? plain(operation) : priced(operation, fate, publishing, root);
      paths.addDescribed(whole, method, members, shown);
    }
  }
}

/** The servers of a backend are nothing that a buyer can reach; an operation without answers is none. */
function plain(operation: unknown): DescriptionValues {
  const { servers: _, responses, ...rest } = recordOf(operation);
  if (responses === undefined) return rest;
  const isEmpty = Object.keys(recordOf(responses)).length === 0;
  return { ...rest, responses: isEmpty ? NOT_DESCRIBED : responses };
}

function priced(
  operation: unknown,
  { accepts, least }: Pick<SoldRoute, "accepts" | "least">,
  { versions }: Publishing,
  root: DescriptionValues,
): DescriptionValues {
  const { parameters, responses, ...described } = plain(operation);
  const answers = Object.entries(recordOf(responses)).map(([status, answer]) => {
    const isGood = status.startsWith("2") && own(recordOf(answer), "$ref") === undefined;
    const headers = { ...recordOf(recordOf(answer)["headers"]), ...receiptHeaders(versions) };
    return [status, isGood ? { ...recordOf(answer), headers } : answer] as const;
  });
  const others = listOf(parameters).filter(
    (each) => !PAYMENT_HEADER.test(textOf(resolved(each, root)?.["name"])),
  );
  return {
    ...described,
    parameters: [...others, ...paymentParameters(versions)],
    responses: { ...Object.fromEntries(answers), "402": REQUIRED_RESPONSE },
    security: [],
    "x-payment-info": paymentInfo(accepts, versions, least),
  };
}
