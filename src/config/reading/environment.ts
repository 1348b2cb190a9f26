/** What a configuration takes from outside its file: environment variables and files with secrets. */
import { readFileSync } from "node:fs";
import { err, ok, type Result } from "../../x402/result.ts";
import type { Fault } from "./problem.ts";

/** Where `${NAME}`, `env:NAME` and `file:PATH` are looked up. */
export interface Environment {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Text of a file; throws when it cannot be read. */
  readonly readFile: (path: string) => string;
  /** Milliseconds since the epoch, for what expires; default: the system's clock. */
  readonly now?: () => number;
}

/** The environment of this process. */
export const processEnvironment: Environment = {
  env: process.env,
  readFile: (path) => readFileSync(path, "utf8"),
};

/**
 * Value of a variable; where it is not set but `NAME_FILE` is, the trimmed text of the file that one
 * names (a mounted secret). Undefined when neither is set.
 */
export function readVariable(
  name: string,
  { env, readFile }: Environment,
): Result<string | undefined, Fault> {
  const value = own(env, name);
  if (value !== undefined) return ok(value);
  const path = own(env, `${name}_FILE`);
  if (path === undefined) return ok(undefined);
  const text = readSecretFile(path, readFile);
  if (text !== undefined) return ok(text);
  return err({
    code: "unreadable-file",
    message: `the file that ${name}_FILE names cannot be read`,
  });
}

/** Trimmed text of a file; undefined when it cannot be read, for whatever reason. */
export function readSecretFile(
  path: string,
  readFile: Environment["readFile"],
): string | undefined {
  try {
    return readFile(path).trim();
  } catch {
    return undefined;
  }
}

function own(env: Environment["env"], name: string): string | undefined {
  return Object.hasOwn(env, name) ? env[name] : undefined;
}
