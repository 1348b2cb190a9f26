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
import type { Located, Path, Scalar, Tree } from "./tree.ts";

/** The document without what was refused; undefined when that is all of it. */
export function validate(tree: Tree, problems: Problems): ConfigDocument | undefined {
  while (!tree.root.refused) {
    const result = documentSchema.safeParse(tree.plain());
    if (result.success) return result.data;
    const issues = result.error.issues.flatMap((issue) => plainIssues(issue, []));
    const refused = issues.flatMap((issue) =>
      isMisspelt(issue, issues, tree)
        ? [standing(tree, issue.path)]
        : report(issue, tree, problems),
    );
    tree.refuse(refused);
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

/** Whether a key is missing because another, which is unknown, is a misspelling of it: that is said once. */
function isMisspelt({ path }: { readonly path: Path }, all: readonly Issue[], tree: Tree): boolean {
  const key = path.at(-1);
  const parent = path.slice(0, -1);
  if (typeof key !== "string" || tree.has(path)) return false;
  return all.some(
    (each) =>
      each.code === "unrecognized_keys" &&
      samePath(each.path, parent) &&
      each.keys.some((written) => nearestWord(written, knownKeys(documentSchema, parent)) === key),
  );
}

function samePath(left: Path, right: Path): boolean {
  return left.length === right.length && left.every((step, index) => step === right[index]);
}

/** Reports one issue and returns the values that cannot be used because of it. */
function report(issue: Issue, tree: Tree, problems: Problems): readonly Located[] {
  const { path } = issue;
  if (issue.code === "unrecognized_keys") {
    return issue.keys.map((key) => {
      problems.add("error", [...path, key], unknownKey(key, path), "key");
      const value = standing(tree, [...path, key]);
      problems.addObscure(value.span);
      return value;
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

function unknownKey(key: string, path: Path): Fault {
  if (key === "<<") return fault("unknown-key", "merge keys are not part of YAML 1.2");
  const known = knownKeys(documentSchema, path);
  const list = `known here: ${known.join(", ")}`;
  return fault("unknown-key", "unknown key", didYouMean(key, known) ?? list);
}

/** The keys that a map at that path may have. */
function knownKeys(schema: z.core.$ZodType, path: Path): readonly string[] {
  if (schema instanceof z.ZodExactOptional || schema instanceof z.ZodPrefault) {
    return knownKeys(schema.unwrap(), path);
  }
  if (schema instanceof z.ZodPipe) return knownKeys(schema.in, path);
  if (schema instanceof z.ZodUnion) {
    return schema.options.flatMap((option) => knownKeys(option, path));
  }
  const [step, ...rest] = path;
  if (schema instanceof z.ZodObject) {
    const shape: Readonly<Record<string, z.core.$ZodType>> = schema.shape;
    if (step === undefined) return Object.keys(shape);
    const value = shape[step];
    return value === undefined ? [] : knownKeys(value, rest);
  }
  if (schema instanceof z.ZodRecord && step !== undefined) return knownKeys(schema.valueType, rest);
  if (schema instanceof z.ZodArray && step !== undefined) return knownKeys(schema.element, rest);
  return [];
}
