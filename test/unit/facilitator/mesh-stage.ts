/** A router over scripted facilitators, and what a paywall makes durable for it. */
import { onTheWire } from "../../../src/facilitator/wire-facilitator.ts";
import { onTestFinished } from "vitest";
import type { SettleOptions } from "../../../src/payments/facilitator.ts";
import {
  FacilitatorRouter,
  type FacilitatorRouterOptions,
} from "../../../src/facilitator/facilitator-router.ts";
import type { RemoteOptions } from "../../../src/facilitator/remote.ts";
import type { Observer } from "../../../src/mechanism/mechanism.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { Metrics } from "../../../src/telemetry/metrics.ts";
import type { Telemetry } from "../../../src/telemetry/telemetry.ts";
import {
  startScriptedFacilitator,
  type FacilitatorCall,
  type FacilitatorReply,
  type ScriptedFacilitator,
} from "../../support/scripted-facilitator.ts";
import { exampleRequest, PAYER } from "../payments/settlement/example-request.ts";
import { LeapingTime } from "../payments/settlement/leaping-time.ts";
import { SIGNER } from "../payments/settlement/scripted-observer.ts";
import { openRemote, soon, success } from "./remote-stage.ts";

/** Answers may be changed in the middle of a test. */
export interface Scripted extends ScriptedFacilitator {
  reply: FacilitatorReply;
  /** Where the answer depends on the question. */
  answer?: (call: FacilitatorCall) => FacilitatorReply;
}

export async function scripted(reply: FacilitatorReply, port = 0): Promise<Scripted> {
  const opened = await startScriptedFacilitator(
    (call) => facilitator.answer?.(call) ?? facilitator.reply,
    port,
  );
  const facilitator: Scripted = { ...opened, reply };
  onTestFinished(() => opened.close());
  return facilitator;
}

/** Where nobody listens. */
export async function nobody(): Promise<{ readonly url: string }> {
  const closed = await scripted({ status: 200 });
  await closed.close();
  return { url: closed.url };
}

export interface MeshStage {
  readonly router: FacilitatorRouter;
  readonly metrics: Metrics;
  readonly telemetry: Telemetry;
  readonly time: LeapingTime;
  readonly log: readonly Record<string, unknown>[];
}

export interface MeshSetup extends Partial<
  Pick<FacilitatorRouterOptions, "time" | "embedded" | "firstLooks" | "foreign">
> {
  readonly observer?: Observer;
  readonly remote?: Partial<RemoteOptions>;
  /** False: what they told is not known before they are asked. */
  readonly tellsSigners?: boolean;
}

export function meshOver(
  facilitators: readonly { readonly url: string }[],
  { observer, remote = {}, tellsSigners = true, ...given }: MeshSetup = {},
): MeshStage {
  const metrics = new Metrics("test");
  const log: Record<string, unknown>[] = [];
  const write = (line: string): void => void log.push(JSON.parse(line));
  const logger = createLogger({ level: "trace", format: "json", destination: { write } });
  const time = new LeapingTime();
  const remotes = facilitators.map(({ url }) => openRemote(url, remote).remote);
  if (tellsSigners) {
    for (const { word } of remotes) word.record({ signers: { "eip155:*": [SIGNER] } }, time.now());
  }
  const observers = new Map(observer === undefined ? [] : [[observer.network, observer]]);
  const telemetry = { logger, metrics };
  const options = { embedded: undefined, remotes, observers, telemetry, time, ...given };
  return { router: new FacilitatorRouter(options), metrics, telemetry, time, log };
}

export const verify = (router: FacilitatorRouter) =>
  onTheWire(router).verify(exampleRequest, soon());

export interface Handed extends SettleOptions {
  /** Facilitators to which the payment was handed, in order. */
  readonly names: readonly string[];
}

/** What a caller with a claim of its own passes on. */
export function handing(options: Partial<SettleOptions> = {}): Handed {
  const names: string[] = [];
  const onHandOver = async (name: string): Promise<void> => void names.push(name);
  return { signal: soon(), idempotencyKey: "key", onHandOver, ...options, names };
}

export const valid = { status: 200, body: { isValid: true, payer: PAYER } };
export const settled = { status: 200, body: success };
export const broken: FacilitatorReply = { raw: (response) => void response.destroy() };

export const refusal = (errorReason: string) => ({
  status: 200,
  body: { success: false, transaction: "", network: "base-sepolia", payer: PAYER, errorReason },
});

export const kindsOf = (...networks: string[]) => ({
  status: 200,
  body: { kinds: networks.map((network) => ({ x402Version: 1, scheme: "exact", network })) },
});
