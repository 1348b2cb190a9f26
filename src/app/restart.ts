/** What of a configuration a running process cannot change, and how that is told. */
import { isDeepStrictEqual } from "node:util";
import { NEEDS_RESTART, type Config, type Problem } from "../config/config.ts";
import { about } from "./problem.ts";
import { pack } from "./start-order.ts";

const SUGGESTION = "restart it to have this; until then everything stays as it was";

/** A problem for each key whose change needs a restart; empty where the change can be made now. */
export function restartProblems(current: Config, next: Config): readonly Problem[] {
  const changed = NEEDS_RESTART.filter(({ part }) => {
    return !isDeepStrictEqual(pack(part(current)), pack(part(next)));
  });
  const problems = changed.map(({ key, why }) => {
    return problem(next, key, `${key} cannot change while the gateway runs: ${why}`);
  });
  if ((current.routes.length === 0) !== (next.routes.length === 0)) {
    const message =
      "a facilitator cannot become a gateway, nor a gateway a facilitator, while it runs";
    problems.push(problem(next, "routes", message));
  }
  return problems;
}

/** A process that is about to end, or has only begun. */
export function cannotChange(config: Config, phase: "starting" | "shutting down"): Problem {
  return problem(config, "", `the gateway is ${phase}`);
}

function problem(config: Config, key: string, message: string): Problem {
  const path = key === "" ? [] : key.split(".");
  return about(config, { code: "needs-restart", message, suggestion: SUGGESTION, path });
}
