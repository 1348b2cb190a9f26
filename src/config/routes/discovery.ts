/** `discovery`: what is published of the priced routes, where, and whether a route of the file is in its way. */
import { parseDocument } from "yaml";
import { z } from "zod";
import { err, ok, type Result } from "../../x402/result.ts";
import type { Context } from "../reading/context.ts";
import { BASE_URL } from "../reading/forms.ts";
import type { Fault } from "../reading/problem.ts";
import { fault, readFacilitatorUrl } from "../reading/reading.ts";
import { described, flag, map, matching, optional, plainText, text } from "../reading/shapes.ts";
import type { Path } from "../reading/tree.ts";
import { contact } from "./contact.ts";
import { readFixedPath, type RouteKey } from "./route-key.ts";
import { routePath } from "./route-path.ts";
import type { RouteSettings } from "./routes.ts";

/** What leads buyers to the priced routes; each part is served at a path of its own. */
export interface DiscoverySettings {
  /** `/discovery/resources` */
  readonly listed: boolean;
  /** `/.well-known/x402` */
  readonly wellKnown: boolean;
  /** `/openapi.json`: made of the routes, or of a description of the backend, OpenAPI 3.0 or 3.1. */
  readonly openapi:
    | "off"
    | "routes"
    | { readonly file: string; readonly description: Readonly<Record<string, unknown>> };
  /** `/llms.txt` */
  readonly llms: boolean;
  /** Canonical path of the catalogue page; null: there is none. */
  readonly page: string | null;
  /** Whether the listing and the page tell how often and how well each route was delivered. */
  readonly quality: boolean;
  /** An email address, or the URL of a page; null: none is named. */
  readonly contact: string | null;
  /** Public address of the facilitator; null: none is named. */
  readonly facilitator: string | null;
}

/** Longest description of a backend, UTF-16 code units. */
const MAX_DESCRIPTION_LENGTH = 8 * 1024 * 1024;
/** Longest one in YAML, which takes a hundred times as long to read as JSON. */
const MAX_YAML_LENGTH = 2 * 1024 * 1024;
/** How deep it may nest: whoever walks through it may rely on that. */
const MAX_DEPTH = 100;
/** Nodes that YAML aliases in it may stand for, all together. */
const MAX_ALIASES = 10_000;

const UNREADABLE = "is neither a map in JSON nor one in YAML that can be read";

/** Where the parts of `discovery` are served. */
export const PUBLISHED_PATHS = {
  listed: "/discovery/resources",
  wellKnown: "/.well-known/x402",
  openapi: "/openapi.json",
  llms: "/llms.txt",
} as const;

/**
 * Where the listing of version 2 is served, too, for clients that know nothing but what is before the path; its search
 * also where those look for it that know the listing of version 1.
 */
export const VERSION_2_PATHS = {
  resources: "/v2/discovery/resources",
  search: "/v2/discovery/search",
  plainSearch: "/discovery/search",
} as const;

/** What is there for programs, whether or not this file turns it on. */
const RESERVED =
  /^\/(?:(?:v2\/)?discovery\/(?:resources|search)|\.well-known\/.*|openapi\.json|llms\.txt)$/;
const HINT = "write page: /catalogue";

const openapi = z.union(
  [
    flag,
    map({
      from: described(
        plainText,
        "The backend's own description, OpenAPI 3.0 or 3.1 as JSON or YAML: a file, relative to this one. " +
          "What buyers may ask for of it is published, with prices.",
      ),
    }),
  ],
  "must be true, false or { from: FILE }",
);

export const discovery = map({
  listed: optional(
    flag,
    "Serves the listing of priced routes at /discovery/resources, and in the form of version 2 below /v2/discovery.",
    true,
  ),
  wellKnown: optional(
    flag,
    "Serves /.well-known/x402, which leads programs from the host to the listing.",
    false,
  ),
  openapi: optional(
    openapi,
    "Serves /openapi.json: the priced routes as OpenAPI 3.1, or the backend's own description with prices.",
    false,
  ),
  page: optional(
    text(readPagePath, matching(/^\//, "must be a path that begins with /", "/catalogue")),
    "Path of a page for people that shows the priced routes: /catalogue. Without it: nowhere.",
  ),
  quality: optional(
    flag,
    "Tells buyers in the listing and on the page what the ledger says of each route: sales of the last 30 days, the " +
      "share of them that was delivered, how long that took, when it was last.",
    true,
  ),
  llms: optional(flag, "Serves /llms.txt: the priced routes in words, for language models.", false),
  contact: optional(
    contact,
    "Whom to write to about what is sold, for /openapi.json: an email address or the URL of a page.",
  ),
  facilitator: optional(
    text(readFacilitatorUrl, BASE_URL),
    "Public address of the facilitator, for /.well-known/x402. Without it: none is named.",
  ),
});

/** The path as requests have it, without the slash at its end. */
function readPagePath(text: string): Result<string, Fault> {
  const read = readFixedPath(text);
  if (!read.ok) return read;
  const path = read.value === "" ? "/" : read.value;
  if (!RESERVED.test(path)) return ok(path);
  return err(fault("bad-value", "must not be the path of something else that is published", HINT));
}

export function resolveDiscovery(
  { openapi, page, contact: written, facilitator, ...flags }: z.output<typeof discovery>,
  context: Context,
  path: Path = ["discovery"],
): DiscoverySettings {
  return {
    ...flags,
    openapi: resolveOpenApi(openapi, [...path, "openapi", "from"], context),
    page: page ?? null,
    contact: written ?? null,
    facilitator: facilitator ?? null,
  };
}

/** Whether something else of the gateway's may be published at that path. */
export function isReserved(path: string): boolean {
  return RESERVED.test(path);
}

/** A route with exactly that path is served in place of the document. */
export function isShadowed(
  { routes }: { readonly routes: readonly Pick<RouteSettings, "pattern">[] },
  path: string,
): boolean {
  return routes.some(({ pattern }) => pattern === path);
}

/** Warns of documents that are switched on and never served. */
export function reviewDiscovery(
  config: { readonly discovery: DiscoverySettings; readonly routes: readonly RouteSettings[] },
  path: Path,
  { problems }: Context,
): void {
  const { wellKnown, openapi, llms } = config.discovery;
  const isOn = { wellKnown, openapi: openapi !== "off", llms };
  for (const key of ["wellKnown", "openapi", "llms"] as const) {
    const served = PUBLISHED_PATHS[key];
    if (!isOn[key] || !isShadowed(config, served)) continue;
    const message = `has no effect: a route of this file has the path ${served}`;
    const hint = "leave one of them out; a route with that very path wins";
    problems.add("warning", [...path, key], fault("unused-key", message, hint), "key");
  }
}

function resolveOpenApi(
  written: z.output<typeof openapi>,
  path: Path,
  context: Context,
): DiscoverySettings["openapi"] {
  if (typeof written === "boolean") return written ? "routes" : "off";
  const file = context.absolute(written.from);
  const text = context.fileText(path, file, "a file");
  if (text === undefined) return "off";
  const description = readBackendDescription(text);
  if (description.ok) return { file, description: description.value };
  context.problems.error(path, fault("bad-file", `the file ${description.error}`));
  return "off";
}

/** The error goes on from "the file". */
function readBackendDescription(text: string): Result<Readonly<Record<string, unknown>>, string> {
  if (text.length > MAX_DESCRIPTION_LENGTH) {
    return err(`is longer than ${MAX_DESCRIPTION_LENGTH} characters`);
  }
  const parsed = parse(text);
  if (!parsed.ok) return parsed;
  const { value } = parsed;
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    return err(UNREADABLE);
  }
  if (isDeeper(value, MAX_DEPTH)) return err(`nests more than ${MAX_DEPTH} levels deep`);
  const root: Readonly<Record<string, unknown>> = { ...value };
  if (Object.hasOwn(root, "swagger")) {
    return err("is a Swagger 2 description; convert it to OpenAPI 3 first");
  }
  if (/^3\.[01](?:\.|$)/.test(String(root["openapi"]))) return ok(root);
  return err("does not begin as OpenAPI 3 does: openapi: 3.0.x or 3.1.x");
}

function parse(text: string): Result<unknown, string> {
  try {
    return ok(JSON.parse(text));
  } catch {
    // YAML, then.
  }
  if (text.length > MAX_YAML_LENGTH) {
    return err(
      `is no JSON, and longer than the ${MAX_YAML_LENGTH} characters that are read of YAML: write it as JSON`,
    );
  }
  try {
    const document = parseDocument(text, { logLevel: "error" });
    if (document.errors.length > 0) return err(UNREADABLE);
    // Through JSON: what a description holds beyond its types could not be published.
    const json = JSON.stringify(document.toJS({ maxAliasCount: MAX_ALIASES }));
    return json.length > MAX_DESCRIPTION_LENGTH ? err(UNREADABLE) : ok(JSON.parse(json));
  } catch {
    return err(UNREADABLE);
  }
}

function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  return levels === 0 || Object.values(value).some((each) => isDeeper(each, levels - 1));
}

/**
 * Whether the address of the host alone leads to the catalogue page: where nothing else answers there, and so nobody
 * would find out what is sold.
 */
export function isEntrance({
  discovery: { page },
  routes,
  unmatched,
  sidecar,
}: {
  readonly discovery: Pick<DiscoverySettings, "page">;
  readonly routes: readonly Pick<RouteSettings, "segments">[];
  readonly unmatched: "deny" | "free";
  readonly sidecar: unknown;
}): boolean {
  if (page === null || page === "/" || unmatched === "free" || sidecar !== null) return false;
  return !routes.some((route) => covers(route, [""]));
}

/** A route that the file names there would never be asked for; a pattern around it loses this one path. */
export function checkPage(
  page: string | null,
  routes: readonly RouteSettings[],
  path: Path,
  { problems }: Context,
): void {
  if (page === null) return;
  const segments = page.slice(1).split("/");
  for (const route of routes) {
    if (!covers(route, segments)) continue;
    const place = `${JSON.stringify(route.key)} on ${problems.where(routePath(route))}`;
    if (route.pattern === page) {
      const message = `is the path of the route ${place}, which would never be asked for`;
      problems.error(path, fault("page-taken", message, "choose another path for it"));
    } else if (route.action.kind !== "deny") {
      const message = `is one path of the route ${place}, which loses it`;
      problems.add("warning", path, fault("page-taken", message));
    }
  }
}

function covers({ segments }: Pick<RouteKey, "segments">, path: readonly string[]): boolean {
  const isRest = segments.at(-1)?.kind === "rest";
  if (isRest ? path.length < segments.length : path.length !== segments.length) return false;
  return segments.every((segment, index) => {
    if (segment.kind === "static") return segment.text === path[index];
    return segment.kind === "rest" || path[index] !== "";
  });
}
