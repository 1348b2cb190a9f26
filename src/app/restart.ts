/** What of a configuration a running process cannot change, and how that is told. */
import { isDeepStrictEqual } from "node:util";
import type { Config } from "../config/config.ts";
import type { Problem } from "../config/config.ts";
import { networkOf } from "../x402/network.ts";
import { about } from "./problem.ts";
import { pack } from "./start-order.ts";

/** Keys of the file, and what they stand for. */
const FIXED: readonly (readonly [key: string, part: (config: Config) => unknown])[] = [
  ["listen", ({ listen }) => listen],
  ["sidecar", ({ sidecar }) => sidecar],
  ["admin", ({ admin }) => admin],
  ["store", ({ store, keeping }) => [store, keeping]],
  ["workers", ({ workers }) => workers],
  ["logging", ({ logging }) => logging],
  [
    "facilitator",
    ({ facilitator }) => ({
      ...facilitator,
      embedded: facilitator.embedded.map((chain) => ({ ...chain, assets: [] })),
      payees: 0,
    }),
  ],
  ["limits", ({ limits }) => [limits.headerBytes, limits.connections, limits.settlementWaitMs]],
  // Opened with the facilitator, which then has the tokens and payees that routes name; where nothing is
  // settled here nobody asks for them.
  [
    "routes",
    ({ facilitator }) =>
      facilitator.embedded.length === 0
        ? []
        : [facilitator.embedded.map(({ assets }) => assets), facilitator.payees],
  ],
];

const REASONS: Readonly<Record<string, string>> = {
  limits:
    "limits.header, limits.connections and limits.settlementWait cannot change while the gateway runs",
  routes:
    "the tokens and payees of networks that are settled here cannot change while the gateway runs",
};

/** A problem for each key whose change needs a restart; empty where the change can be made now. */
export function restartProblems(
  current: Config,
  next: Config,
  toldNetworks: readonly string[],
): readonly Problem[] {
  const changed = FIXED.filter(([, part]) => {
    return !isDeepStrictEqual(pack(part(current)), pack(part(next)));
  }).map(([key]) => key);
  const problems = changed.map((key) => problem(next, key));
  if ((current.routes.length === 0) !== (next.routes.length === 0)) {
    problems.push(
      problem(
        next,
        "routes",
        "a facilitator cannot become a gateway, nor a gateway a facilitator, while it runs",
      ),
    );
  }
  const untold = solanaNetworks(next).filter((network) => !toldNetworks.includes(network));
  if (untold.length > 0) {
    problems.push(
      problem(
        next,
        "routes",
        `nothing was sold on ${untold.join(", ")} when the gateway was started`,
      ),
    );
  }
  return problems;
}

/** A process that is about to end, or has only begun. */
export function cannotChange(config: Config, phase: "starting" | "shutting down"): Problem {
  return problem(config, "", `the gateway is ${phase}`);
}

function problem(config: Config, key: string, reason?: string): Problem {
  return about(config, {
    code: "needs-restart",
    message: reason ?? REASONS[key] ?? `${key} cannot change while the gateway runs`,
    suggestion: "restart it to have this; until then everything stays as it was",
    path: [key],
  });
}

function solanaNetworks({ routes }: Config): readonly string[] {
  const offers = routes.flatMap(({ action }) => (action.kind === "priced" ? action.offers : []));
  const networks = offers.map(({ network }) => network);
  return [...new Set(networks)].filter((name) => networkOf(name).kind === "solana");
}
