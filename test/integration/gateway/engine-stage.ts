/** An engine without a gateway around it: each exchange is forwarded as the test says. */
import { createServer, type AddressInfo } from "node:net";
import { onTestFinished } from "vitest";
import { readClient } from "../../../src/gateway/client/client.ts";
import { openTarget } from "../../../src/gateway/upstream/open-target.ts";
import { TrustedProxies } from "../../../src/gateway/client/trusted-proxies.ts";
import {
  defaultUpstreamOptions,
  type UpstreamExchange,
  type TargetEngine,
  type TargetOptions,
} from "../../../src/gateway/upstream/upstream.ts";
import { backend } from "./stage.ts";

/** No peer is believed anything. */
const NOBODY = new TrustedProxies([]);

/** Closed when the test ends. */
export function target(origin: string, options: Partial<TargetOptions> = {}): TargetEngine {
  const engine = openTarget({ ...defaultUpstreamOptions, origin, ...options });
  onTestFinished(() => engine.close(AbortSignal.abort()));
  return engine;
}

/** A listener that does with each exchange what the test says; resolves with its port. */
export async function front(
  handle: (exchange: UpstreamExchange) => Promise<unknown>,
): Promise<number> {
  const origin = await backend((request, response) => {
    void handle({
      request,
      response,
      client: readClient(request, NOBODY),
      target: request.url ?? "/",
      requestHeaders: [],
      responseSet: [],
      responseAdded: [],
      sale: null,
    });
  });
  return Number(new URL(origin).port);
}

/** An origin where nothing listens. */
export async function nobody(): Promise<string> {
  const server = createServer();
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => void server.close(resolve));
  return `http://127.0.0.1:${port}`;
}
