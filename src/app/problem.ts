/** What speaks against a configuration that was accepted, where another one runs. */
import type { Config, Problem } from "../config/config.ts";

type Told = Pick<Problem, "code" | "message"> &
  Partial<Pick<Problem, "suggestion" | "path" | "line">>;

export function about({ file }: Pick<Config, "file">, told: Told): Problem {
  const line = told.line ?? 0;
  return {
    severity: "error",
    path: [],
    length: 1,
    ...told,
    file,
    line,
    column: line === 0 ? 0 : 1,
  };
}
