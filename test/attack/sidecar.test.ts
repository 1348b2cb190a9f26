/** A part of the battery through a real nginx that asks us; all of it is `npm run attack -- --sidecar nginx`. */
import { expect, test } from "vitest";
import { hasProxy } from "../support/own-proxy.ts";
import { describeFinding } from "./attack-report.ts";
import { runSidecarBattery } from "./sidecar-battery.ts";

/** Longest that it may take on a busy machine, milliseconds. */
const TIMEOUT_MS = 120_000;
/** What is quick, and where a proxy and its sidecar could read something differently. */
const TOPICS: ReadonlySet<string> = new Set(["path-spellings", "routing-headers"]);

function select({ topic }: { readonly topic: string }): boolean {
  return TOPICS.has(topic);
}

test.skipIf(!hasProxy("nginx"))(
  "no attack gets through nginx and its sidecar (without it: apt-get install nginx-light)",
  async () => {
    const report = await runSidecarBattery({ proxy: "nginx", select, gateways: ["deny"] });

    expect(report.findings.flatMap((finding) => [...describeFinding(finding)]).join("\n")).toBe("");
    expect(report.tallies.reduce((sum, { runs }) => sum + runs, 0)).toBeGreaterThan(270);
  },
  TIMEOUT_MS,
);
