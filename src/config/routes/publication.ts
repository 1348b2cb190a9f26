/** `discovery`: what is published, and whether a route of the file is in its way. */
import { parseDocument } from "yaml";
import { err, ok, type Result } from "../../x402/result.ts";
import type { Context } from "../reading/context.ts";
import type { DiscoverySettings } from "./discovery-settings.ts";
import type { ConfigDocument } from "../reading/document.ts";
import { readSecretFile } from "../reading/environment.ts";
import { fault } from "../reading/reading.ts";
import type { Config } from "../settings.ts";

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

type Written = NonNullable<ConfigDocument["discovery"]>;

export function resolveDiscovery(written: Written, context: Context): DiscoverySettings {
  return {
    listed: written.listed ?? true,
    wellKnown: written.wellKnown ?? false,
    openapi: resolveOpenApi(written.openapi ?? false, context),
    llms: written.llms ?? false,
    page: written.page ?? null,
    facilitator: written.facilitator ?? null,
  };
}

/** A route with exactly that path is served in place of the document. */
export function isShadowed({ routes }: Pick<Config, "routes">, path: string): boolean {
  return routes.some(({ pattern }) => pattern === path);
}

/** Warns of documents that are switched on and never served. */
export function reviewDiscovery(config: Config, { problems }: Context): void {
  const { wellKnown, openapi, llms } = config.discovery;
  const isOn = { wellKnown, openapi: openapi !== "off", llms };
  for (const key of ["wellKnown", "openapi", "llms"] as const) {
    const path = PUBLISHED_PATHS[key];
    if (!isOn[key] || !isShadowed(config, path)) continue;
    const message = `has no effect: a route of this file has the path ${path}`;
    const hint = "leave one of them out; a route with that very path wins";
    problems.add("warning", ["discovery", key], fault("unused-key", message, hint), "key");
  }
}

function resolveOpenApi(
  written: NonNullable<Written["openapi"]>,
  context: Context,
): DiscoverySettings["openapi"] {
  if (typeof written === "boolean") return written ? "routes" : "off";
  const file = context.absolute(written.from);
  const path = ["discovery", "openapi", "from"];
  const text = readSecretFile(file, context.environment.readFile);
  if (text === undefined) {
    const hint = "write the path of a file, relative to the folder of this file";
    context.problems.error(path, fault("unreadable-file", "the file cannot be read", hint));
    return "off";
  }
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
