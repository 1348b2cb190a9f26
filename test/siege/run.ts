/** One siege: an attack from so many addresses for so long, while honest guests come and buy. */
import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { constants, setPriority } from "node:os";
import { setTimeout as pause } from "node:timers/promises";
import { VERSIONS } from "../support/buyer.ts";
import type { Attack } from "./attacks.ts";
import type { Orders } from "./attacker.ts";
import {
  buyOnce,
  keepBuying,
  keepVisiting,
  Told,
  visitOnce,
  type Buyer,
  type Guest,
} from "./guests.ts";
import type { Stage } from "./stages.ts";

export const BUYERS = 20;
export const VISITORS = 20;
/** How long guests come alone before the attack, and how long afterwards all must be as before, milliseconds. */
const CALM_MS = 3_000;
const AFTER_MS = 75_000;
const READY_MS = 5_000;
const LOOK_MS = 1_000;

export interface SiegeOptions {
  /** Null: nobody does anything. */
  readonly attack: Attack | null;
  readonly addresses: number;
  readonly seconds: number;
}

export interface SiegeReport {
  readonly buyers: Told;
  readonly visitors: Told;
  /** Largest resident memory of all processes of the gateway, bytes. */
  readonly residentBytes: number;
  /** Answers of `/readyz` that were not 200. */
  readonly unready: number;
  /** Connections that the strangers opened, and how many of them were cut. */
  readonly opened: number;
  readonly cut: number;
  /** What was not as before once the strangers had gone. */
  readonly left: readonly string[];
}

export async function besiege(
  stage: Stage,
  { attack, addresses, seconds }: SiegeOptions,
): Promise<SiegeReport> {
  const buyers = new Told();
  const visitors = new Told();
  const over = new AbortController();
  const { signal } = over;
  // Before anybody is measured: to start a program takes a core of the same machine for a second.
  const strangers = attack && (await summon(stage, attack, addresses));
  const guests = Array.from({ length: VISITORS }, (_, index) =>
    keepVisiting(guestOf(stage, `127.4.0.${index + 1}`, visitors), signal),
  );
  for (const [index, buyer] of buyersOf(stage).entries()) {
    guests.push(keepBuying(guestOf(stage, `127.3.0.${index + 1}`, buyers), buyer, signal));
  }
  const watch = new Watch(stage);
  await pause(CALM_MS);
  await callUp(strangers);
  await pause(seconds * 1_000);
  const counts = await dismiss(strangers);
  over.abort();
  await Promise.all(guests);
  const left = await leftBehind(stage);
  return { buyers, visitors, left, ...counts, ...(await watch.end()) };
}

/** Half of them in each version. */
function buyersOf({ shop }: Stage): readonly Buyer[] {
  return (shop?.payers ?? []).map(({ account }, index) => {
    return { account, version: VERSIONS[index % VERSIONS.length] ?? VERSIONS[0] };
  });
}

function guestOf({ url }: Stage, address: string, told: Told): Guest {
  return { url, address, told };
}

/** The strangers, who wait for the word. */
async function summon(
  { url, protocol, shop }: Stage,
  { name }: Attack,
  addresses: number,
): Promise<ChildProcess> {
  const port = Number(new URL(url).port);
  const orders: Orders = { attack: name, addresses, port, protocol, offer: shop?.offer ?? null };
  const strangers = fork(new URL("attacker.ts", import.meta.url), [JSON.stringify(orders)]);
  await once(strangers, "message");
  // They have machines of their own, and here they would take the gateway's processor.
  setPriority(strangers.pid ?? 0, constants.priority.PRIORITY_LOW);
  return strangers;
}

/** Until each has begun its first connection: they have the least of a busy machine, and the siege is no shorter for it. */
async function callUp(strangers: ChildProcess | null): Promise<void> {
  if (strangers === null) return;
  strangers.send("come");
  await once(strangers, "message");
}

/** Ends the strangers, who tell before how it went. */
async function dismiss(
  strangers: ChildProcess | null,
): Promise<Pick<SiegeReport, "opened" | "cut">> {
  if (strangers === null) return { opened: 0, cut: 0 };
  strangers.send("tell");
  const [told] = await once(strangers, "message");
  strangers.kill("SIGKILL");
  await once(strangers, "exit");
  return told;
}

/** Waits until all is as before, for a while, and tells what is not. */
async function leftBehind(stage: Stage): Promise<readonly string[]> {
  const told = new Told();
  const left: string[] = [];
  if (stage.shop !== null) {
    const until = performance.now() + AFTER_MS;
    let taken = NaN;
    while (taken !== 0 && performance.now() < until) {
      taken = await gaugeOf(stage.shop.adminUrl, "coinslot_places_taken");
      if (taken !== 0) await pause(200);
    }
    if (taken !== 0) {
      const open = await connectionsOf(Number(new URL(stage.url).port));
      left.push(`${taken} places are still taken; connections: ${JSON.stringify(open)}`);
    }
    for (const [index, buyer] of buyersOf(stage).slice(0, VERSIONS.length).entries()) {
      await buyOnce(guestOf(stage, `127.3.1.${index + 1}`, told), buyer);
    }
  }
  await visitOnce(guestOf(stage, "127.4.1.1", told));
  return [...left, ...[...told.refusals.keys()].map((what) => `afterwards: ${what}`)];
}

/**
 * The connections of a port of this machine: how many from which addresses (127.x: guests and strangers have others) in
 * which state of TCP, `01` established, `08` ended by the other side.
 */
async function connectionsOf(port: number): Promise<Readonly<Record<string, number>>> {
  const counts: Record<string, number> = {};
  const own = `:${port.toString(16).toUpperCase().padStart(4, "0")}`;
  for (const table of ["/proc/net/tcp", "/proc/net/tcp6"]) {
    for (const line of (await readFile(table, "utf8")).split("\n")) {
      const [, local, remote = "", state] = line.trim().split(/\s+/);
      if (local?.endsWith(own) !== true) continue;
      const from = Number.parseInt(remote.slice(-9, -7), 16);
      const name = `127.${from} ${state}`;
      counts[name] = (counts[name] ?? 0) + 1;
    }
  }
  return counts;
}

/** Looks at memory and readiness, once a second. */
class Watch {
  readonly #stage: Stage;
  readonly #over = new AbortController();
  readonly #done: Promise<void>;
  #residentBytes = 0;
  #unready = 0;

  constructor(stage: Stage) {
    this.#stage = stage;
    this.#done = this.#look();
  }

  async end(): Promise<Pick<SiegeReport, "residentBytes" | "unready">> {
    this.#over.abort();
    await this.#done;
    return { residentBytes: this.#residentBytes, unready: this.#unready };
  }

  async #look(): Promise<void> {
    const { signal } = this.#over;
    const { pid, shop } = this.#stage;
    while (!signal.aborted) {
      this.#residentBytes = Math.max(this.#residentBytes, await residentOf(pid));
      if (shop !== null && !(await isReady(shop.adminUrl))) this.#unready += 1;
      await pause(LOOK_MS, undefined, { signal }).catch(() => undefined);
    }
  }
}

async function isReady(adminUrl: string): Promise<boolean> {
  const signal = AbortSignal.timeout(READY_MS);
  const answer = await fetch(`${adminUrl}/readyz`, { signal }).catch(() => undefined);
  return answer?.status === 200;
}

/** Of a process and all that it has started, bytes; what they share counts once, as in a container. */
async function residentOf(pid: number): Promise<number> {
  const told = await readFile(`/proc/${pid}/smaps_rollup`, "utf8").catch(() => "");
  const own = Number(/^Pss:\s+(\d+) kB$/m.exec(told)?.[1] ?? 0) * 1_024;
  const list = await readFile(`/proc/${pid}/task/${pid}/children`, "utf8").catch(() => "");
  const children = list.split(" ").filter(Boolean).map(Number);
  const others = await Promise.all(children.map(residentOf));
  return others.reduce((sum, each) => sum + each, own);
}

async function gaugeOf(adminUrl: string, name: string): Promise<number> {
  const text = await (await fetch(`${adminUrl}/metrics`)).text();
  const lines = text.matchAll(new RegExp(String.raw`^${name}(?:\{[^}]*\})? (\S+)$`, "gm"));
  return [...lines].reduce((sum, [, value]) => sum + Number(value), 0);
}
