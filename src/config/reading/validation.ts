/**
 * Holds a document against its schema and reports every difference. What is refused is marked in the
 * tree and left out, so that the rest can be resolved and its problems are found in the same run.
 */
import { z } from "zod";
import { documentSchema, type ConfigDocument } from "../document.ts";
import type { Fault, Problems } from "./problem.ts";
import { isProblemCode } from "./problem-codes.ts";
import { fault, LASTING_FORM, SIZE_FORM } from "./reading.ts";
import { didYouMean, nearestWord } from "./suggestion.ts";
import { plain, type Located, type Path, type Scalar, type Tree } from "./tree.ts";

/** The document without what was refused; undefined when that is all of it. */
export function validate(tree: Tree, problems: Problems): ConfigDocument | undefined {
  for (const path of NAMED) moveOut(path, tree, problems);
  while (!tree.root.refused) {
    const result = documentSchema.safeParse(tree.plain());
    if (result.success) return result.data;
    const issues = result.error.issues.flatMap((issue) => plainIssues(issue, []));
    // What is unknown may be what others miss: then only the one is told.
    const [unknown, others] = [true, false].map((is) =>
      issues.filter(({ code }) => (code === "unrecognized_keys") === is),
    );
    const places: Path[] = [];
    const refused = (unknown ?? []).flatMap((issue) => report(issue, tree, problems, places));
    const said = (others ?? []).filter(
      ({ path }) =>
        !places.some((place) => samePath(place, path) || samePath(place.slice(0, -1), path)),
    );
    tree.refuse([...refused, ...said.flatMap((issue) => report(issue, tree, problems, places))]);
  }
  return undefined;
}

type Issue = Exclude<z.core.$ZodIssue, z.core.$ZodIssueInvalidUnion> & { readonly path: Path };

/**
 * A union reports every alternative. The author meant the one whose type fits what is written, and only
 * what that one has to say is of use.
 */
function plainIssues(issue: z.core.$ZodIssue, parent: Path): readonly Issue[] {
  const path = [...parent, ...issue.path.filter((step) => typeof step !== "symbol")];
  if (issue.code !== "invalid_union") return [{ ...issue, path }];
  const alternatives = issue.errors.map((issues) =>
    issues.flatMap((each) => plainIssues(each, path)),
  );
  const meant = alternatives.find(
    (issues) =>
      !issues.some((each) => each.code === "invalid_type" && each.path.length === path.length),
  );
  return meant ?? [{ code: "invalid_type", expected: "union", message: issue.message, path }];
}

function samePath(left: Path, right: Path): boolean {
  return left.length === right.length && left.every((step, index) => step === right[index]);
}

/** Reports one issue and returns the values that cannot be used because of it. `places`: to which keys were moved. */
function report(issue: Issue, tree: Tree, problems: Problems, places: Path[]): readonly Located[] {
  const { path } = issue;
  if (issue.code === "unrecognized_keys") {
    return issue.keys.flatMap((key) => {
      const value = standing(tree, [...path, key]);
      problems.addObscure(value.span);
      const place = placeOf(key, path, tree);
      problems.add("error", [...path, key], place?.fault ?? unknownKey(key, path), "key");
      if (place === undefined) return [value];
      const isRead = value.kind === "mapping" || fits([...path, key], place.path, tree);
      tree.move([...path, key], place.path);
      places.push(place.path);
      return isRead ? [] : [value];
    });
  }
  const written = tree.find(path);
  if (written === undefined) {
    problems.add("error", path, fault("missing-key", "is required"), "key");
  } else if (!written.refused) {
    const part = isAboutKey(issue) ? "key" : "value";
    problems.add("error", path, describe(issue, written), part);
  }
  return [standing(tree, path)];
}

/** The value at a path, or the nearest one around it that was not refused before. */
function standing(tree: Tree, path: Path): Located {
  const located = tree.find(path);
  if (located !== undefined && !located.refused) return located;
  return path.length === 0 ? tree.root : standing(tree, path.slice(0, -1));
}

function isAboutKey(issue: Issue): boolean {
  return (
    issue.code === "invalid_key" || (issue.code === "custom" && issue.params?.["part"] === "key")
  );
}

function describe(issue: Issue, written: Located): Fault {
  switch (issue.code) {
    case "custom":
      return ownFault(issue.message, issue.params ?? {});
    case "invalid_key":
      return fault("bad-key", issue.issues[0]?.message ?? issue.message);
    case "invalid_type":
      return wrongType(issue.message, written, issue.path);
    default:
      return fault("bad-value", issue.message);
  }
}

/** The fault of a reader, which came through the schema. */
function ownFault(message: string, params: Readonly<Record<string, unknown>>): Fault {
  const { code, suggestion } = params;
  return fault(
    isProblemCode(code) ? code : "bad-value",
    message,
    typeof suggestion === "string" ? suggestion : undefined,
  );
}

function wrongType(message: string, written: Located, path: Path): Fault {
  const value = written.kind === "scalar" ? written.value : "";
  if (value === null) {
    return path.length === 0
      ? fault("empty", "there is nothing in this file")
      : fault("no-value", "no value is given", "give one, or remove the key");
  }
  return fault("bad-type", message, typeHint(message, value));
}

/** What a scalar of the wrong kind was most likely meant to be. */
function typeHint(message: string, value: Scalar["value"]): string | undefined {
  if (typeof value !== "string" && message === "must be text") {
    return `put quotes around it: "${String(value)}"`;
  }
  if (typeof value !== "number" || !Number.isInteger(value) || value < 0) return undefined;
  if (message === LASTING_FORM) return `write ${value}d for days`;
  if (message.startsWith("must be a duration")) return `write ${value}s for seconds`;
  return message === SIZE_FORM ? `write ${value}B for bytes` : undefined;
}

/** Where a key without meaning was meant to stand, as far as that can be told, and what is said of it. */
function placeOf(
  key: string,
  path: Path,
  tree: Tree,
): { readonly path: Path; readonly fault: Fault } | undefined {
  const nearest = nearestWord(key, knownKeys(path));
  if (nearest !== undefined) {
    const place = [...path, nearest];
    return tree.has(place) ? undefined : { path: place, fault: unknownKey(key, path) };
  }
  const keys = tree.keys(path);
  const above = keys[keys.indexOf(key) - 1];
  const isName = above !== "routes" || key.includes("/");
  const below = above === undefined || !isName ? [] : [[...path, above, key]];
  const meant = [...below, ...placesAround(key, path)].find((place) =>
    fits([...path, key], place, tree),
  );
  return meant && { path: meant, fault: misplaced(meant) };
}

/** Maps whose keys are names: each would take a key that stands too far in for one. */
const NAMED: readonly Path[] = [
  ["upstreams"],
  ["routes"],
  ["assets"],
  ["facilitator", "embedded", "networks"],
];

/** A route is told by its slash, and takes no key for a name. */
function isNamed(path: Path): boolean {
  return path[0] !== "routes" && NAMED.some((each) => samePath(each, path));
}

/** Keys of the maps around that stand among the names of one. */
function moveOut(path: Path, tree: Tree, problems: Problems): void {
  for (const key of tree.keys(path)) {
    if (!/^[A-Za-z]\w*$/.test(key)) continue;
    const place = placesAround(key, path).find((each) => fits([...path, key], each, tree));
    if (place === undefined) continue;
    problems.add("error", [...path, key], misplaced(place), "key");
    tree.move([...path, key], place);
  }
}

/** Where a key would be known in the maps around its own. */
function placesAround(key: string, path: Path): readonly Path[] {
  return path
    .map((_, depth) => path.slice(0, depth))
    .filter((parent) => isNamed(parent) || knownKeys(parent).includes(key))
    .map((parent) => [...parent, key]);
}

/** Too few spaces before a key, or too many. */
function misplaced(meant: Path): Fault {
  const parent = meant.length === 1 ? "the outermost keys" : `the keys of ${String(meant.at(-2))}`;
  const message = "this key has no meaning here; it is one of another map";
  return fault("unknown-key", message, `indent it as ${parent} are`);
}

/** Whether a value could stand at another place, where nothing does. */
function fits(from: Path, to: Path, tree: Tree): boolean {
  const parent = tree.find(to.slice(0, -1));
  const isOpen = parent?.kind === "mapping" || (parent?.kind === "scalar" && parent.value === null);
  const value = tree.find(from);
  if (!isOpen || tree.has(to) || value === undefined) return false;
  return schemasAt(documentSchema, to).some((schema) => z.safeParse(schema, plain(value)).success);
}

function unknownKey(key: string, path: Path): Fault {
  const known = knownKeys(path);
  const list = `known here: ${known.join(", ")}`;
  return fault("unknown-key", "unknown key", didYouMean(key, known) ?? list);
}

/** The keys that a map at that path may have. */
function knownKeys(path: Path): readonly string[] {
  return schemasAt(documentSchema, path)
    .flatMap(opened)
    .flatMap((schema) => (schema instanceof z.ZodObject ? Object.keys(schema.shape) : []));
}

/** What a value at that path is held against: one schema, or those of several alternatives. */
function schemasAt(schema: z.core.$ZodType, path: Path): readonly z.core.$ZodType[] {
  const [step, ...rest] = path;
  if (step === undefined) return [schema];
  return opened(schema).flatMap((each) => {
    if (each instanceof z.ZodRecord) return schemasAt(each.valueType, rest);
    if (each instanceof z.ZodArray) return schemasAt(each.element, rest);
    const shape: Readonly<Record<string, z.core.$ZodType>> =
      each instanceof z.ZodObject ? each.shape : {};
    const value = Object.hasOwn(shape, step) ? shape[step] : undefined;
    return value === undefined ? [] : schemasAt(value, rest);
  });
}

/** The maps, lists and single values that a schema stands for. */
function opened(schema: z.core.$ZodType): readonly z.core.$ZodType[] {
  if (schema instanceof z.ZodExactOptional || schema instanceof z.ZodPrefault) {
    return opened(schema.unwrap());
  }
  if (schema instanceof z.ZodPipe) return opened(schema.in);
  return schema instanceof z.ZodUnion ? schema.options.flatMap(opened) : [schema];
}
