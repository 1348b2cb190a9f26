import { UndiciEngine } from "./undici-engine.ts";
import { UpgradeEngine } from "./upgrade-engine.ts";
import { UpstreamHealth } from "./upstream-health.ts";
import type { Engine, Unanswered, UpstreamOptions } from "./upstream.ts";

/** The engine for one backend. Connects lazily: a backend may come up after the gateway. */
export function openUpstream(options: UpstreamOptions): Engine {
  const health = new UpstreamHealth(() => performance.now());
  const requests = new UndiciEngine(options, health);
  const upgrades = new UpgradeEngine(options, health);
  const detail = `${options.origin}: the last connections to it failed.`;
  const down: Unanswered = {
    kind: "unanswered",
    status: 503,
    reason: "down",
    detail,
    sent: false,
  };
  return {
    refusal: (request, kind) => {
      const refusal = kind === "upgrade" ? upgrades.refusal() : requests.refusal(request);
      return refusal ?? (health.mayTry() ? null : down);
    },
    forward: (exchange) => requests.forward(exchange),
    upgrade: (exchange) => upgrades.upgrade(exchange),
    close: async (signal) => {
      await Promise.all([requests.close(signal), upgrades.close(signal)]);
    },
  };
}
