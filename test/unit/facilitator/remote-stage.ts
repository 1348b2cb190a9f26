/** A remote facilitator that asks a scripted one; both closed when the test ends. */
import { onTestFinished } from "vitest";
import { RemoteFacilitator, type RemoteOptions } from "../../../src/facilitator/remote.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { Metrics } from "../../../src/telemetry/metrics.ts";
import { systemTime } from "../../../src/time/time.ts";
import type { SettleResponse, VerifyResponse } from "../../../src/x402/x402.ts";
import {
  startScriptedFacilitator,
  type FacilitatorCall,
  type FacilitatorReply,
  type ScriptedFacilitator,
} from "../../support/scripted-facilitator.ts";
import { exampleRequest, PAYER, TRANSACTION } from "../payments/settlement/example-request.ts";

export interface Stage {
  readonly scripted: ScriptedFacilitator;
  readonly remote: RemoteFacilitator;
  readonly metrics: Metrics;
}

export const success = {
  success: true,
  transaction: TRANSACTION,
  network: "base-sepolia",
  payer: PAYER,
} as const;
export const failed = {
  success: false,
  transaction: "",
  network: "base-sepolia",
  payer: PAYER,
} as const;

export function openRemote(
  url: string,
  options: Partial<RemoteOptions> = {},
): { readonly remote: RemoteFacilitator; readonly metrics: Metrics } {
  const metrics = new Metrics("test");
  const logger = createLogger({ level: "silent", format: "json" });
  const remote = new RemoteFacilitator({
    url,
    headers: {},
    timeoutMs: 10_000,
    confirm: "facilitator",
    telemetry: { logger, metrics },
    time: systemTime,
    ...options,
  });
  onTestFinished(() => remote.close());
  return { remote, metrics };
}

export async function stage(
  reply: FacilitatorReply | ((call: FacilitatorCall) => FacilitatorReply),
  { path = "", ...options }: Partial<RemoteOptions> & { readonly path?: string } = {},
): Promise<Stage> {
  const answer = typeof reply === "function" ? reply : () => reply;
  const scripted = await startScriptedFacilitator(answer);
  onTestFinished(() => scripted.close());
  return { scripted, ...openRemote(scripted.url + path, options) };
}

export const soon = (): AbortSignal => AbortSignal.timeout(10_000);

export function verify({ remote }: Pick<Stage, "remote">): Promise<VerifyResponse> {
  return remote.verify(exampleRequest, soon());
}

export function settle(
  { remote }: Pick<Stage, "remote">,
  idempotencyKey?: string,
): Promise<SettleResponse> {
  const key = idempotencyKey === undefined ? {} : { idempotencyKey };
  return remote.settle(exampleRequest, { signal: soon(), ...key });
}

/** The samples of one metric as the scrape shows them. */
export async function samplesOf(metrics: Metrics, name: string): Promise<readonly string[]> {
  const all = await metrics.registry.metrics();
  return all.split("\n").filter((line) => line.startsWith(`${name}{`));
}
