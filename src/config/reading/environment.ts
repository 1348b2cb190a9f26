/** What a configuration takes from outside its file: environment variables and files with secrets. */
import { readFileSync, statSync } from "node:fs";
import { err, ok, type Result } from "../../x402/result.ts";
import type { Fault } from "./problem.ts";

/** Where `${NAME}`, `env:NAME` and `file:PATH` are looked up. */
export interface Environment {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Text of a file; throws when it cannot be read. */
  readonly readFile: (path: string) => string;
  /** Milliseconds since the epoch, for what expires; default: the system's clock. */
  readonly now?: () => number;
  /** Permission bits of a file or folder; undefined where they say nothing. Default: nobody asks. */
  readonly modeOf?: (path: string) => number | undefined;
  /** Variables and files with secrets need not be there: what they would say is left out, and all else is judged. */
  readonly withoutSecrets?: boolean;
}

/** Whether a fault is only that a secret is not here, where none has to be. */
export function isForgiven({ code }: Fault, { withoutSecrets = false }: Environment): boolean {
  return withoutSecrets && (code === "unset-variable" || code === "unreadable-file");
}

/** The environment of this process. */
export const processEnvironment: Environment = {
  env: process.env,
  readFile: (path) => readFileSync(path, "utf8"),
  modeOf: (path) => {
    const found = statSync(path, { throwIfNoEntry: false });
    return process.platform === "win32" ? undefined : found?.mode;
  },
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
  const path = fileOfVariable(name, env);
  if (path === undefined) return ok(undefined);
  const text = readSecretFile(path, readFile);
  if (text !== undefined) return ok(text);
  return err({
    code: "unreadable-file",
    message: `the file that ${name}_FILE names cannot be read`,
    suggestion: "name one that is there and that this process may read",
  });
}

/** The file that holds a variable's value in its place; undefined: none does. */
export function fileOfVariable(name: string, env: Environment["env"]): string | undefined {
  return own(env, name) === undefined ? own(env, `${name}_FILE`) : undefined;
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
