/**
 * The embedded facilitator with its REST endpoints on a real listener, before a local chain: what the
 * composition root builds, without the configuration file.
 */
import { once } from "node:events";
import { onTheWire, type WireFacilitator } from "../../src/facilitator/wire-facilitator.ts";
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { EmbeddedFacilitator } from "../../src/payments/settlement/embedded.ts";
import { Callers } from "../../src/facilitator/callers.ts";
import { FacilitatorEndpoints } from "../../src/facilitator/endpoints.ts";
import { NetworkGate, type NetworkProbe } from "../../src/payments/settlement/network-gate.ts";
import { drain, listen } from "../../src/gateway/listener/listener.ts";
import type { Ledger, StoredSubmission } from "../../src/ledger/ledger.ts";
import { openSqliteLedger } from "../../src/ledger/sqlite/sqlite.ts";
import { createEvmMechanism } from "../../src/mechanism/evm/evm.ts";
import { createLogger } from "../../src/telemetry/logger.ts";
import { Metrics } from "../../src/telemetry/metrics.ts";
import { systemTime, type Time } from "../../src/time/time.ts";
import type { PaymentRequirements } from "../../src/x402/x402.ts";
import type { Chain } from "./chain.ts";
import { freshAccount, requirementsFor as requirementsOn } from "./payer.ts";

export interface FacilitatorSetup {
  readonly chain: Chain;
  /** What it takes for the time of day, Unix milliseconds; default: the machine's. */
  readonly clock?: () => number;
  /** How many accounts pay its network fees; default: one. */
  readonly signers?: number;
  readonly basePath?: string;
  readonly bearer?: string;
  readonly payTo?: readonly string[] | "any";
  /** Whether payers with code are served; default: allow. */
  readonly smartWallets?: "allow" | "deny";
  /** A JSON-RPC URL other than the chain's own: a proxy with faults. */
  readonly rpcUrl?: string;
  /** 1: the network is looked at at the start alone, whatever is done to its chain later. Default: as in a gateway. */
  readonly looks?: 1;
  /** A ledger file; default: in memory. */
  readonly ledgerPath?: string;
  /** A ledger that is there already, and stays the caller's to close. */
  readonly ledger?: Ledger;
}

export interface RunningFacilitator {
  readonly url: string;
  readonly facilitator: EmbeddedFacilitator;
  readonly ledger: Ledger;
  readonly metrics: Metrics;
  readonly probes: readonly NetworkProbe[];
  /** Our first paying account, and all of them. */
  readonly signer: string;
  readonly signers: readonly string[];
  /** What our first account has signed and that is not final. */
  unfinished(): Promise<readonly StoredSubmission[]>;
  /** JSON-RPC calls made since the start, by method. */
  readonly rpcCalls: Map<string, number>;
  post(path: string, body: unknown, headers?: Record<string, string>): Promise<JsonAnswer>;
  get(path: string): Promise<JsonAnswer>;
  [Symbol.asyncDispose](): Promise<void>;
}

export interface JsonAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Record<string, unknown>;
}

export async function startFacilitator(setup: FacilitatorSetup): Promise<RunningFacilitator> {
  const { chain, clock = Date.now, signers: count = 1 } = setup;
  const time: Time = { ...systemTime, now: clock };
  await using closing = new AsyncDisposableStack();
  const telemetry = {
    logger: createLogger({ level: "silent", format: "json" }),
    metrics: new Metrics("test"),
  };
  const signer = freshAccount();
  const signers = [signer, ...Array.from({ length: count - 1 }, freshAccount)];
  for (const { address } of signers) await chain.fund(address, 0n, 10n ** 18n);
  const path = setup.ledgerPath ?? ":memory:";
  const ledger = setup.ledger ?? (await openSqliteLedger({ path, time, life: randomUUID() }));
  if (setup.ledger === undefined) closing.defer(() => ledger.close());
  const rpcCalls = new Map<string, number>();
  const mechanism = createEvmMechanism({
    network: chain.network,
    assets: [chain.network.asset],
    rpcUrls: [setup.rpcUrl ?? chain.rpcUrl],
    keys: signers.map(({ privateKey }) => privateKey),
    clock: () => Math.floor(clock() / 1000),
    allowPayTo: setup.payTo ?? "any",
    smartWallets: setup.smartWallets ?? "allow",
    observer: (method) => rpcCalls.set(method, (rpcCalls.get(method) ?? 0) + 1),
  });
  closing.defer(() => mechanism.close());
  const gate = new NetworkGate(
    [mechanism],
    telemetry,
    setup.looks === 1 ? lookingOnce(time) : time,
  );
  closing.defer(() => gate.close());
  const probes = await gate.probe();
  const { asset } = chain.network;
  const facilitator = new EmbeddedFacilitator({
    mechanisms: [mechanism],
    ledger,
    gate,
    telemetry,
    time,
    describeAsset: () => asset,
  });
  closing.defer(() => facilitator.close());
  const url = await serveFacilitator(onTheWire(facilitator), setup, closing);
  const owned = closing.move();
  const call = (at: string, init: RequestInit) => readJson(fetch(`${url}${at}`, init));
  return {
    url,
    facilitator,
    ledger,
    metrics: telemetry.metrics,
    probes,
    signer: signer.address,
    signers: signers.map(({ address }) => address),
    unfinished: () => ledger.signing.unfinished(chain.network.name, signer.address),
    rpcCalls,
    post: (at, body, headers = {}) =>
      call(at, {
        method: "POST",
        headers: { "content-type": "application/json", ...headers },
        body: typeof body === "string" ? body : JSON.stringify(body),
      }),
    get: (at) => call(at, {}),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** Pauses have no end but that of who pauses. */
function lookingOnce(time: Time): Time {
  const sleep = async (_ms: number, signal?: AbortSignal): Promise<void> => {
    if (signal?.aborted === false) await once(signal, "abort");
  };
  return { ...time, sleep };
}

/** Puts the REST endpoints of any facilitator on a loopback port; resolves with their base URL. */
async function serveFacilitator(
  facilitator: WireFacilitator,
  setup: { readonly basePath?: string; readonly bearer?: string },
  closing: AsyncDisposableStack,
): Promise<string> {
  const { bearer } = setup;
  const endpoints = new FacilitatorEndpoints({
    facilitator,
    list: () => ({ status: 200, body: "{}", etag: null }),
    basePath: setup.basePath ?? "",
    callers: new Callers(bearer === undefined ? [] : [{ gateway: null, bearer }]),
    logger: createLogger({ level: "silent", format: "json" }),
  });
  const server = createServer(endpoints.handle);
  const { port } = await listen(server, { host: "127.0.0.1", port: 0 });
  closing.defer(() => drain(server, AbortSignal.timeout(1_000)));
  return `http://127.0.0.1:${port}${setup.basePath ?? ""}`;
}

/** Requirements of one cent in the chain's USDC to a payee that nobody has paid yet. */
export function requirementsFor(
  chain: Chain,
  overrides: Partial<PaymentRequirements> = {},
): PaymentRequirements {
  return requirementsOn(chain.network.name, { payTo: freshAccount().address, ...overrides });
}

async function readJson(sent: Promise<Response>): Promise<JsonAnswer> {
  const response = await sent;
  const body: unknown = await response.json();
  if (typeof body !== "object" || body === null) throw new Error("not a JSON object");
  return { status: response.status, headers: response.headers, body: { ...body } };
}
