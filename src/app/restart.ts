/** What of a configuration a running process cannot change, and how that is told. */
import { isDeepStrictEqual } from "node:util";
import type { Config } from "../config/config.ts";
import type { Problem } from "../config/config.ts";
import { about } from "./problem.ts";
import { pack } from "./start-order.ts";

interface Fixed {
  /** In the file. */
  readonly key: string;
  readonly part: (config: Config) => unknown;
  /** What opened with it stays as it was opened. */
  readonly why: string;
}

/** All that only a restart changes; `check`, the verdict on a reload and the paper tell it as it stands here. */
export const NEEDS_RESTART: readonly Fixed[] = [
  { key: "listen", part: ({ listen }) => listen, why: "addresses are opened at the start" },
  { key: "sidecar", part: ({ sidecar }) => sidecar, why: "its address is opened at the start" },
  { key: "admin", part: ({ admin }) => admin, why: "its address is opened at the start" },
  {
    key: "facilitator.listen",
    part: ({ facilitator: { listen, basePath, remote } }) => {
      // Without facilitators elsewhere nothing is noted of what others have settled here.
      return listen === null ? null : [listen, basePath, remote.length > 0];
    },
    why: "its address is opened at the start; so is what it answers with and without facilitator.remote",
  },
  {
    key: "facilitator.catalogue",
    part: ({ facilitator: { catalogue, gateways, listen } }) => {
      const listed = gateways.filter(({ urls }) => urls.length > 0);
      return listen === null ? null : [catalogue, listed.map(({ name, urls }) => [name, urls])];
    },
    why: "the listing of others' sales is read at the start, and so are the urls of facilitator.auth.gateways",
  },
  {
    key: "facilitator.foreign",
    part: ({ facilitator }) => facilitator.foreign,
    why: "payments that are looked for go by it from their beginning",
  },
  { key: "store", part: ({ store, keeping }) => [store, keeping], why: "the ledger stays open" },
  { key: "workers", part: ({ workers }) => workers, why: "they share what the start has opened" },
  {
    key: "logging.format",
    part: ({ logging }) => logging.format,
    why: "standard output is opened with it",
  },
  {
    key: "limits.header",
    part: ({ limits }) => limits.headerBytes,
    why: "listeners are opened with it",
  },
];

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
