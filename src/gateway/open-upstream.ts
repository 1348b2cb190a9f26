import { UndiciEngine } from "./undici-engine.ts";
import { UpgradeEngine } from "./upgrade-engine.ts";
import type { Engine, UpstreamOptions } from "./upstream.ts";

/** The engine for one backend. Connects lazily: a backend may come up after the gateway. */
export function openUpstream(options: UpstreamOptions): Engine {
  const requests = new UndiciEngine(options);
  const upgrades = new UpgradeEngine(options);
  return {
    refusal: (request, kind) =>
      kind === "upgrade" ? upgrades.refusal() : requests.refusal(request),
    forward: (exchange) => requests.forward(exchange),
    upgrade: (exchange) => upgrades.upgrade(exchange),
    close: async (signal) => {
      await Promise.all([requests.close(signal), upgrades.close(signal)]);
    },
  };
}
