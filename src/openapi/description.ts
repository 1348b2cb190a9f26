/**
 * The text of an API description as plain values: OpenAPI 3.0 and 3.1, or Swagger 2, in JSON or YAML. Whoever
 * wrote it may have meant harm: size, aliases and references are bounded, and nothing outside of it is read.
 */
import { parseDocument } from "yaml";
import { err, ok, type Result } from "../x402/result.ts";

export type DescriptionValues = Readonly<Record<string, unknown>>;

export interface Description {
  readonly root: DescriptionValues;
  /** How it calls itself: `OpenAPI 3.1.0`, `Swagger 2.0`. */
  readonly form: string;
  readonly isSwagger: boolean;
}

/** Longest description, UTF-16 code units; the largest public ones have some 12 million. */
export const MAX_DESCRIPTION_LENGTH = 32 * 1024 * 1024;
/** Nodes that YAML aliases may stand for, all together. */
const MAX_ALIASES = 10_000;
/** References that lead to references. */
const MAX_REFERENCES = 16;

export function readDescription(text: string): Result<Description, string> {
  if (text.length > MAX_DESCRIPTION_LENGTH) {
    return err(`is longer than ${MAX_DESCRIPTION_LENGTH} characters`);
  }
  const parsed = parse(text.replace(/^\ufeff/, ""));
  if (!parsed.ok) return parsed;
  const root = recordOf(parsed.value);
  const openapi = versionOf(root["openapi"]);
  if (/^3\.[01](?:\.|$)/.test(openapi)) {
    return ok({ root, form: `OpenAPI ${openapi}`, isSwagger: false });
  }
  const swagger = versionOf(root["swagger"]);
  if (/^2(?:\.0)?$/.test(swagger)) return ok({ root, form: "Swagger 2.0", isSwagger: true });
  return err(
    'says neither `openapi: 3.0.x` or `3.1.x` nor `swagger: "2.0"`, so it is no description that is read here',
  );
}

/** Numbers where somebody forgot the quotes: 3.1, and 2.0 read as 2. */
function versionOf(value: unknown): string {
  return typeof value === "string" || typeof value === "number" ? String(value) : "";
}

function parse(text: string): Result<unknown, string> {
  if (text.trimStart().startsWith("{")) {
    try {
      return ok(JSON.parse(text));
    } catch {
      // YAML may begin like that, too, and says where it is wrong.
    }
  }
  const document = parseDocument(text, { prettyErrors: true, logLevel: "error" });
  const [fault] = document.errors;
  if (fault !== undefined) {
    const [place] = fault.linePos ?? [];
    const where = place === undefined ? "" : ` at line ${place.line}, column ${place.col}`;
    return err(`is neither JSON nor YAML: there is a mistake${where}`);
  }
  try {
    return ok(document.toJS({ maxAliasCount: MAX_ALIASES }));
  } catch {
    return err("has aliases that stand for too much");
  }
}

/** An object, or an empty one in place of anything else. */
export function recordOf(value: unknown): DescriptionValues {
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? (value as DescriptionValues)
    : {};
}

/** An own member: descriptions may have paths and parameters of any name. */
export function own(values: DescriptionValues, name: string): unknown {
  return Object.hasOwn(values, name) ? values[name] : undefined;
}

export function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** What a value or its `$ref` stands for; null for references that lead out of the file, in circles or nowhere. */
export function resolved(value: unknown, root: DescriptionValues): DescriptionValues | null {
  let current = recordOf(value);
  for (let step = 0; step < MAX_REFERENCES; step += 1) {
    const reference = own(current, "$ref");
    if (typeof reference !== "string") return current;
    const found = followed(reference, root);
    if (found === null) return null;
    current = found;
  }
  return null;
}

/** What references of a description lead to: it may have any number of long ones, which all lead to one place. */
const FOLLOWED = new WeakMap<DescriptionValues, Map<string, DescriptionValues | null>>();

function followed(reference: string, root: DescriptionValues): DescriptionValues | null {
  const known = FOLLOWED.get(root) ?? new Map<string, DescriptionValues | null>();
  FOLLOWED.set(root, known);
  const before = known.get(reference);
  if (before !== undefined) return before;
  const isInside = reference.startsWith("#/");
  const found = isInside ? follow(reference.slice(2).split("/"), root) : null;
  known.set(reference, found);
  return found;
}

/** JSON Pointer in a URI fragment (RFC 6901, section 6). */
function follow(steps: readonly string[], root: DescriptionValues): DescriptionValues | null {
  let current: unknown = root;
  for (const step of steps) {
    if (typeof current !== "object" || current === null) return null;
    current = own(current as DescriptionValues, unescaped(step));
  }
  return typeof current === "object" && current !== null ? recordOf(current) : null;
}

/** A step of such a pointer: the fragment is decoded first (RFC 6901, sections 4 and 6). */
export function unescaped(step: string): string {
  return decoded(step).replaceAll("~1", "/").replaceAll("~0", "~");
}

function decoded(step: string): string {
  try {
    return decodeURIComponent(step);
  } catch {
    return step;
  }
}
