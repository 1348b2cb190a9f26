/** The listeners beside the gateway's: small requests, which come from our own side. */
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import type { Config, ListenAddress, ListenerTls } from "../config/config.ts";
import { keyPairFault } from "../config/key-pair.ts";
import { CertifiedServer } from "../gateway/listener/certified-server.ts";
import { drain, listen } from "../gateway/listener/listener.ts";
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
  { closing, patience, config, telemetry }: Parts,
  address: (ListenAddress & { readonly tls?: ListenerTls | null }) | null,
  handler: RequestListener,
): Promise<AddressInfo | null> {
  if (address === null) return null;
  const http = { maxHeaderSize: config.limits.headerBytes, ...TIMEOUTS };
  const { tls = null } = address;
  if (tls === null) {
    const server = createServer(http, handler);
    const opened = await listen(server, address);
    closing.defer(() => drain(server, patience));
    return opened;
  }
  const { logger, metrics } = telemetry;
  const onUsed = (file: string, ms: number): void => metrics.configuration.certificate(file, ms);
  const secure = new CertifiedServer(http, { ...tls, judge: keyPairFault, logger, onUsed });
  const { server } = secure;
  server.on("request", handler);
  const cut = (): void => secure.destroy();
  closing.defer(cut);
  await secure.open();
  const opened = await listen(server, address);
  closing.defer(async () => {
    patience.addEventListener("abort", cut, { once: true });
    if (patience.aborted) cut();
    await drain(server, patience);
    patience.removeEventListener("abort", cut);
  });
  return opened;
}
