/** The engine for one target of a backend: requests, upgrades, and what is known of its health. */
import type { Unanswered } from "../../http/unanswered.ts";
import { H1Client } from "./h1-client.ts";
import { RequestEngine } from "./request-engine.ts";
import { UndiciClient } from "./undici-client.ts";
import { UpgradeEngine } from "./upgrade-engine.ts";
import { UpstreamHealth } from "./upstream-health.ts";
import type { TargetEngine, TargetOptions } from "./upstream.ts";

/** Connects lazily: a target may come up after the gateway. */
export function openTarget(options: TargetOptions): TargetEngine {
  const health = new UpstreamHealth(() => performance.now());
  const requests = new RequestEngine(options, openClient(options, health), health);
  const upgrades = new UpgradeEngine(options, health);
  const down: Unanswered = {
    kind: "unanswered",
    status: 503,
    reason: "down",
    detail: `${options.origin}: the last connections to it failed.`,
    sent: false,
    retriable: true,
  };
  return {
    health,
    get active() {
      return requests.active + upgrades.active;
    },
    refusal: (request, switching) => {
      const refusal = switching === null ? requests.refusal(request) : upgrades.refusal(switching);
      return refusal ?? (health.mayTry() ? null : down);
    },
    forward: (exchange) => requests.forward(exchange),
    upgrade: (exchange) => upgrades.upgrade(exchange),
    close: async (signal) => {
      await Promise.all([requests.close(signal), upgrades.close(signal)]);
    },
  };
}

function openClient(options: TargetOptions, health: UpstreamHealth) {
  const events = {
    onConnected: () => health.succeeded(),
    onConnectFailed: () => health.failed(),
  };
  return options.protocol === "h2"
    ? new UndiciClient(options, events)
    : new H1Client(options, events);
}
