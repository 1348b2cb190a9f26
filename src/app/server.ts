/** The listeners beside the gateway's: small requests, which come from our own side. */
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import type { Config, ListenAddress } from "../config/config.ts";
import { drain, listen } from "../gateway/listener.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import type { Time } from "../time/time.ts";

const TIMEOUTS = {
  headersTimeout: 15_000,
  requestTimeout: 30_000,
  connectionsCheckingInterval: 5_000,
};

/** What all parts of one start share. */
export interface Parts {
  readonly config: Config;
  readonly telemetry: Telemetry;
  readonly time: Time;
  /** Closed last to first. */
  readonly closing: AsyncDisposableStack;
  /** Aborts when the time for a shutdown is up. */
  readonly patience: AbortSignal;
}

/** Resolves with the address once it listens; with null where none is configured. */
export async function openServer(
  { closing, patience, config }: Parts,
  address: ListenAddress | null,
  handler: RequestListener,
): Promise<AddressInfo | null> {
  if (address === null) return null;
  const server = createServer({ maxHeaderSize: config.limits.headerBytes, ...TIMEOUTS }, handler);
  const opened = await listen(server, address);
  closing.defer(() => drain(server, patience));
  return opened;
}
