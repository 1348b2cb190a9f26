/** The battery before a proxy of the operator's own, which asks the gateway as its sidecar. */
import { startChain } from "../support/chain.ts";
import type { OwnProxyName } from "../support/own-proxy.ts";
import { readCases, type AttackCase } from "./attack-case.ts";
import type { BatteryReport, Tally } from "./battery.ts";
import type { Unmatched } from "./shop.ts";
import { Stage, type Finding } from "./stage.ts";

/**
 * Topics that are about what the proxy does by itself here (its TLS, its HTTP/2, its patience), or about features
 * that only the gateway has.
 */
const THEIRS: ReadonlySet<string> = new Set([
  "clients",
  "hostile-backend",
  "http2",
  "http2-backends",
  "http2-targets",
  "rewriting",
  "slow-senders",
  "tls",
]);
/** Longest that a case may take, milliseconds: the proxies wait longer for the rest of a request than we do. */
const PATIENCE_MS = 1_000;

/** Cases that are none there, and why. */
const NO_ATTACK: Readonly<Record<string, string>> = {
  "a good payment for another host": "which hosts are served is the proxy's to say",
  "a good payment behind a refused request is not taken":
    "the proxy has read the refused request to its end, so what follows is a request of its own",
};

/**
 * Lines of a client that a proxy cannot take away. nginx knows no patterns of names, and coinslot writes neither of
 * these; Caddy announces trailers that it does not send.
 */
const HARMLESS: Readonly<Record<OwnProxyName, readonly string[]>> = {
  nginx: ["X-402-Anything: 1", "Proxy-Anything: http://evil.example"],
  haproxy: [],
  caddy: ["Trailer: X-402-Payer"],
};

/** The cases that make sense there. */
function sidecarCases(): readonly AttackCase[] {
  return readCases()
    .filter(({ name, repeats = name }) => !Object.hasOwn(NO_ATTACK, repeats))
    .filter(({ topic, on, waits }) => !THEIRS.has(topic) && on === undefined && waits === undefined)
    .map((each) => ({ ...each, within: Math.min(each.within, PATIENCE_MS) }));
}

export interface SidecarBatteryOptions {
  readonly proxy: OwnProxyName;
  /** Default: each of them, before both gateways. */
  readonly select?: (each: AttackCase) => boolean;
  readonly gateways?: readonly Unmatched[];
}

export async function runSidecarBattery(options: SidecarBatteryOptions): Promise<BatteryReport> {
  const { proxy, select = () => true, gateways = ["deny", "free"] } = options;
  const started = performance.now();
  const cases = sidecarCases().filter(select);
  await using chain = await startChain();
  const findings: Finding[] = [];
  for (const gateway of gateways) {
    await using stage = await Stage.start(chain, gateway, { proxy });
    const note = (found: readonly Finding[]): void => {
      findings.push(...found.filter(({ detail }) => !HARMLESS[proxy].includes(detail)));
    };
    for (const each of cases) note(await stage.play(each));
    note(await stage.audit());
  }
  const topics = [...new Set(cases.map(({ topic }) => topic))];
  const tallies = topics.map((topic): Tally => {
    const count = cases.filter((each) => each.topic === topic).length;
    return { topic, cases: count, runs: count * gateways.length };
  });
  const seconds = (performance.now() - started) / 1000;
  return { tallies, findings, waiting: [], seconds };
}
