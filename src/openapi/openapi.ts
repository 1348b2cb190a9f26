/**
 * An API description as routes that can be priced: each path and method becomes a route key of the
 * configuration, judged by the configuration's own rules. What cannot be one is told with its reason.
 */
import { readRouteKey, type RouteKey } from "../config/routes/route-key.ts";
import { methodsOverlap, shapeOf } from "../config/routes/route-conflicts.ts";
import { err, ok, type Result } from "../x402/result.ts";
import { listOf, own, readDescription, recordOf, resolved, textOf } from "./description.ts";
import type { Description, DescriptionValues } from "./description.ts";
import { FreeNames } from "./free-names.ts";
import { readOperation, type OperationTerms, type Parameters } from "./operation.ts";

export interface ImportedRoute extends OperationTerms {
  /** `GET /pets/:id` */
  readonly key: string;
}

export interface Skipped {
  /** `GET /pets/{id}`, as it is written there. */
  readonly operation: string;
  readonly reason: string;
}

export interface Imported {
  /** `OpenAPI 3.1.0` */
  readonly form: string;
  /** "" where it has none. */
  readonly title: string;
  readonly routes: readonly ImportedRoute[];
  readonly skipped: readonly Skipped[];
  /** The origin that the description names first; null where it names none. */
  readonly server: string | null;
}

/** More are in no description that was written by people; ten thousand routes are what a gateway is built for. */
const MAX_OPERATIONS = 10_000;
/** In the order in which routes are written. */
export const METHODS = ["get", "post", "put", "patch", "delete", "head"] as const;
/** Why the others are left out. */
const UNPRICED: Readonly<Record<string, string>> = {
  options: "OPTIONS is what browsers ask before they buy: the gateway answers it",
  trace: "TRACE is never sent to a backend",
};

/** Reads the text of a description. The error is a sentence that goes on from the name of the file. */
export function importOpenApi(text: string): Result<Imported, string> {
  const description = readDescription(text);
  if (!description.ok) return description;
  const { root, form } = description.value;
  const paths = recordOf(root["paths"]);
  if (Object.keys(paths).length === 0) return err("describes no paths");
  const importer = new Importer(description.value);
  for (const [path, item] of Object.entries(paths)) importer.add(path, item);
  const { routes, skipped } = importer;
  const title = textOf(recordOf(root["info"])["title"]);
  return ok({ form, title, routes, skipped, server: serverOf(description.value) });
}

class Importer {
  readonly routes: ImportedRoute[] = [];
  readonly skipped: Skipped[] = [];
  readonly #description: Description;
  readonly #byShape = new Map<string, { readonly key: string; readonly route: RouteKey }[]>();
  #count = 0;

  constructor(description: Description) {
    this.#description = description;
  }

  add(path: string, written: unknown): void {
    if (!path.startsWith("/")) {
      if (!path.startsWith("x-")) this.#skip(path, "a path begins with /");
      return;
    }
    const item = resolved(written, this.#description.root);
    if (item === null) return this.#skip(path, "its $ref leads out of the file, or nowhere");
    for (const [method, reason] of Object.entries(UNPRICED)) {
      if (own(item, method) !== undefined) this.#skip(`${method.toUpperCase()} ${path}`, reason);
    }
    for (const method of METHODS) {
      const operation = own(item, method);
      if (operation !== undefined) this.#addOperation(path, method, { item, operation });
    }
  }

  #addOperation(
    path: string,
    method: string,
    { item, operation }: { readonly item: DescriptionValues; readonly operation: unknown },
  ): void {
    const name = `${method.toUpperCase()} ${path}`;
    this.#count += 1;
    if (this.#count > MAX_OPERATIONS) {
      if (this.#count === MAX_OPERATIONS + 1) {
        this.#skip(name, `and all behind it: there are more than ${MAX_OPERATIONS}`);
      }
      return;
    }
    const own = recordOf(operation);
    const base = basePathOf(this.#description, item, own);
    if (!base.ok) return this.#skip(name, base.error);
    const pattern = patternOf(`${base.value}${path}`);
    if (!pattern.ok) return this.#skip(name, pattern.error);
    const key = `${method.toUpperCase()} ${pattern.value}`;
    const read = readRouteKey(key);
    if (!read.ok) return this.#skip(name, read.error.message);
    const rival = this.#rivalOf(key, read.value);
    if (rival !== undefined) {
      return this.#skip(name, `matches the same requests as ${JSON.stringify(rival)}`);
    }
    const terms = readOperation(this.#description, item, own, path);
    this.routes.push({ key, ...terms, pathParams: renamed(terms.pathParams, path, pattern.value) });
  }

  /** The earlier key that matches the same requests; remembers this one where there is none. */
  #rivalOf(key: string, route: RouteKey): string | undefined {
    const shape = shapeOf(route);
    const earlier = this.#byShape.get(shape) ?? [];
    const rival = earlier.find((each) => methodsOverlap(each.route, route));
    if (rival === undefined) this.#byShape.set(shape, [...earlier, { key, route }]);
    return rival?.key;
  }

  #skip(operation: string, reason: string): void {
    this.skipped.push({ operation, reason });
  }
}

/** What is said of `{pet-id}` is of `:pet_id`. */
function renamed(parameters: Parameters, path: string, pattern: string): Parameters {
  const written = path.match(/\{[^{}]+\}/g) ?? [];
  const names = pattern.split("/").filter((segment) => segment.startsWith(":"));
  const told = written.map((each, index) => {
    const { required: _, ...parameter } = recordOf(own(parameters, each.slice(1, -1)));
    return [names[index]?.slice(1) ?? "", parameter] as const;
  });
  return Object.fromEntries(told.filter(([, parameter]) => Object.keys(parameter).length > 0));
}

/** `/pets/{id}` as `/pets/:id`. */
export function patternOf(path: string): Result<string, string> {
  const names = new FreeNames();
  const segments: string[] = [];
  for (const segment of path.split("/")) {
    if (!/[{}]/.test(segment)) {
      if (/^[:*]/.test(segment) || segment.includes("*")) {
        return err(`the segment ${JSON.stringify(segment)} would mean something else in a route`);
      }
      segments.push(segment);
      continue;
    }
    const [, written] = /^\{([^{}]+)\}$/.exec(segment) ?? [];
    if (written === undefined) {
      const parameters = segment.match(/\{[^{}]*\}/g)?.length ?? 0;
      return err(
        parameters > 1
          ? "a segment has more than one parameter; a route's parameter is a whole segment"
          : "a parameter is only a part of its segment; a route's parameter is a whole segment",
      );
    }
    if (/[*+?()|]/.test(written)) return err("a parameter is a regular expression or a rest");
    const plain = written.replace(/[^A-Za-z0-9_]+/g, "_").replace(/^(?=[0-9])/, "_");
    segments.push(`:${names.take(plain)}`);
  }
  return ok(segments.join("/"));
}

/** What stands before every path of an operation: of the nearest `servers`, or of `basePath`. */
export function basePathOf(
  { root, isSwagger }: Description,
  item: DescriptionValues,
  operation: DescriptionValues,
): Result<string, string> {
  const written = isSwagger
    ? textOf(root["basePath"])
    : serverUrlOf(nearest("servers", [operation, item, root]));
  const path = pathOf(written);
  return path === undefined ? err("the URL of its server cannot be read") : ok(path);
}

function nearest(name: string, places: readonly DescriptionValues[]): unknown {
  return places.map((place) => own(place, name)).find((value) => listOf(value).length > 0);
}

/** The first server, its variables filled with their defaults. */
function serverUrlOf(servers: unknown): string {
  const server = recordOf(listOf(servers)[0]);
  const variables = recordOf(server["variables"]);
  return textOf(server["url"]).replace(/\{([^{}]+)\}/g, (whole, name: string) => {
    const value = recordOf(own(variables, name))["default"];
    return typeof value === "string" || typeof value === "number" ? String(value) : whole;
  });
}

/** Without the slash at its end; undefined for what is no URL and no path. */
function pathOf(written: string): string | undefined {
  if (!URL.canParse(written === "" ? "/" : written, "http://server.invalid/")) return undefined;
  const { pathname } = new URL(written === "" ? "/" : written, "http://server.invalid/");
  return /[{}]|%7B/i.test(pathname) ? undefined : pathname.replace(/\/+$/, "");
}

function serverOf({ root, isSwagger }: Description): string | null {
  const scheme = listOf(root["schemes"]).includes("http") ? "http" : "https";
  const host = textOf(root["host"]);
  const written = isSwagger
    ? host === ""
      ? ""
      : `${scheme}://${host}`
    : serverUrlOf(root["servers"]);
  if (!/^https?:\/\//.test(written) || !URL.canParse(written)) return null;
  return new URL(written).origin;
}
