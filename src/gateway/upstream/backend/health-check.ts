/**
 * Active health checks: `GET path` of each target, again and again, on a connection of its own. Bounded: one
 * check of a target at a time, each with a deadline; jittered, so that gateways that started together do not
 * ask together.
 */
import { Client } from "undici";
import type { Time } from "../../../time/time.ts";
import type { TargetOptions } from "../upstream.ts";
import { connectorTo } from "../undici-client.ts";
import { messageOf } from "../../../x402/result.ts";

/** The first check comes within so many milliseconds of the start, or of the interval if that is less. */
const FIRST_WITHIN_MS = 1_000;
/** The pause between two checks is the interval, give or take this part of it. */
const JITTER = 0.1;
/** A target has that much to say at most, bytes; the rest is cut off. */
const MAX_BODY_BYTES = 64 * 1024;

export interface HealthCheckOptions {
  /** Path and query, sent as they are: nothing is stripped of it or put before it. */
  readonly path: string;
  readonly intervalMs: number;
  readonly timeoutMs: number;
  /** Good checks in a row until a target that was down is up. */
  readonly up: number;
  /** Bad checks in a row until it is down. */
  readonly down: number;
}

/** What is wrong with a target, as a part of a sentence; null: nothing. */
export type HealthFinding = string | null;

/** Asks a target once; the signal ends it. Never rejects. */
export type Probe = (signal: AbortSignal) => Promise<HealthFinding>;

/** The state of one target as its checks tell it. Up until they say otherwise. */
export class CheckedState {
  readonly #options: Pick<HealthCheckOptions, "up" | "down">;
  /** Checks in a row that speak against the present state. */
  #against = 0;
  #isDown = false;

  constructor(options: Pick<HealthCheckOptions, "up" | "down">) {
    this.#options = options;
  }

  get isDown(): boolean {
    return this.#isDown;
  }

  /** True where the state has changed. */
  note(isGood: boolean): boolean {
    this.#against = isGood === this.#isDown ? this.#against + 1 : 0;
    const { up, down } = this.#options;
    if (this.#against < (this.#isDown ? up : down)) return false;
    this.#isDown = !this.#isDown;
    this.#against = 0;
    return true;
  }
}

export interface Checking {
  readonly options: HealthCheckOptions;
  readonly probe: Probe;
  /** Told after each check. */
  readonly report: (finding: HealthFinding) => void;
  readonly time: Time;
  /** From 0 to below 1. */
  readonly random: () => number;
  /** Ends the checks. */
  readonly signal: AbortSignal;
}

/** Runs until the signal ends it. */
export async function check(checking: Checking): Promise<void> {
  const { options, probe, report, time, random, signal } = checking;
  const { intervalMs, timeoutMs } = options;
  await time.sleep(random() * Math.min(intervalMs, FIRST_WITHIN_MS), signal);
  while (!signal.aborted) {
    const deadline = AbortSignal.any([time.timeout(timeoutMs), signal]);
    const finding = await probe(deadline);
    // A check that was cut off by the end says nothing.
    if (signal.aborted) return;
    report(deadline.aborted ? `did not answer within ${timeoutMs} ms` : finding);
    await time.sleep(intervalMs * (1 + JITTER * (2 * random() - 1)), signal);
  }
}

/** @param host what Host says; null: the target's own name */
export function probeOf(options: TargetOptions, path: string, host: string | null): Probe {
  const connect = connectorTo(options);
  const headers = { "user-agent": "coinslot health check", ...(host === null ? {} : { host }) };
  return async (signal) => {
    const client = new Client(options.origin, {
      connect,
      allowH2: options.protocol === "h2",
      pipelining: options.protocol === "h2" ? 1 : 0,
      maxHeaderSize: options.headLimitBytes,
    });
    try {
      const { statusCode, body } = await client.request({ method: "GET", path, headers, signal });
      await body.dump({ limit: MAX_BODY_BYTES, signal });
      return statusCode < 400 ? null : `answered ${statusCode}`;
    } catch (error) {
      return `could not be asked: ${messageOf(error)}`;
    } finally {
      await client.destroy();
    }
  };
}
