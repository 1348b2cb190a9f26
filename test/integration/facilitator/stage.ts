/**
 * A running facilitator behind a proxy with faults, as the tests of this folder see it, and payments for
 * it by payers who can afford them.
 */
import { onTheWire, type WireFacilitator } from "../../../src/facilitator/wire-facilitator.ts";
import type {
  PaymentPayload as OfficialPayload,
  PaymentRequirements as OfficialRequirements,
} from "@x402/core/types";
import { parseAbi, parseEventLogs, type Hex, type Log } from "viem";
import type { EmbeddedFacilitator } from "../../../src/payments/settlement/embedded.ts";
import {
  FacilitatorRouter,
  type FacilitatorRouterOptions,
} from "../../../src/facilitator/facilitator-router.ts";
import { RemoteFacilitator, type RemoteOptions } from "../../../src/facilitator/remote.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { Metrics } from "../../../src/telemetry/metrics.ts";
import { systemTime } from "../../../src/time/time.ts";
import {
  PAYMENT_FLOW,
  paymentV2,
  requirementsV2,
  type PaymentPayloadV2,
} from "../../../src/x402/version-2.ts";
import type { FacilitatorRequest, PaymentRequirements } from "../../../src/x402/x402.ts";
import type { Chain } from "../../support/chain.ts";
import {
  requirementsFor,
  startFacilitator,
  type FacilitatorSetup,
  type RunningFacilitator,
} from "../../support/facilitator.ts";
import {
  freshAccount,
  signPayment,
  type FreshAccount,
  type SignOptions,
} from "../../support/payer.ts";
import { startRpcProxy, type RpcProxy } from "../../support/rpc-proxy.ts";

/** Longer than anything here takes, shorter than a test's own limit. */
const PATIENCE_MS = 15_000;

export const patience = (): AbortSignal => AbortSignal.timeout(PATIENCE_MS);

export interface Stage {
  readonly chain: Chain;
  /** Between the facilitator and the chain. */
  readonly proxy: RpcProxy;
  /** The one that settles, whatever stands before it. */
  readonly inner: RunningFacilitator;
  /** The one under test. */
  readonly facilitator: WireFacilitator;
  [Symbol.asyncDispose](): Promise<void>;
}

/** What a test puts before the embedded facilitator; `closing` gets what must be closed. */
export type Wrap = (
  embedded: EmbeddedFacilitator,
  url: string,
  closing: AsyncDisposableStack,
) => WireFacilitator;

export async function openStage(
  setup: FacilitatorSetup,
  wrap: Wrap = (embedded) => onTheWire(embedded),
): Promise<Stage> {
  await using closing = new AsyncDisposableStack();
  const proxy = closing.use(await startRpcProxy(setup.chain.rpcUrl));
  const inner = closing.use(await startFacilitator({ rpcUrl: proxy.url, ...setup }));
  const facilitator = wrap(inner.facilitator, inner.url, closing);
  const owned = closing.move();
  const dispose = (): Promise<void> => owned.disposeAsync();
  return { chain: setup.chain, proxy, inner, facilitator, [Symbol.asyncDispose]: dispose };
}

export const silent = () => ({
  logger: createLogger({ level: "silent", format: "json" }),
  metrics: new Metrics("test"),
});

export function openRemote(
  url: string,
  closing: AsyncDisposableStack,
  options: Partial<RemoteOptions> = {},
): RemoteFacilitator {
  const remote = new RemoteFacilitator({
    url,
    headers: {},
    timeoutMs: PATIENCE_MS,
    confirm: "facilitator",
    telemetry: silent(),
    time: systemTime,
    ...options,
  });
  closing.defer(() => remote.close());
  return remote;
}

/** A router as the composition root makes it, over remote facilitators unless `embedded` is given. */
export function openMesh(options: Partial<FacilitatorRouterOptions>): FacilitatorRouter {
  return new FacilitatorRouter({
    embedded: undefined,
    remotes: [],
    observers: new Map(),
    telemetry: silent(),
    time: systemTime,
    ...options,
  });
}

export interface Payment {
  readonly payer: FreshAccount;
  readonly requirements: PaymentRequirements;
  readonly request: FacilitatorRequest;
  readonly nonce: string;
}

export type PaymentOptions = Partial<Pick<SignOptions, "overrides" | "corrupt" | "domain">> & {
  /** Default: a fresh one. */
  readonly payer?: FreshAccount;
  /** What the payer is given first, atomic USDC; default: the price. */
  readonly funds?: bigint;
  readonly requirements?: Partial<PaymentRequirements>;
  /** What is asked when it is not what was signed for. */
  readonly asked?: Partial<PaymentRequirements>;
};

/** One cent from a payer who has it, signed as the official clients do. */
export async function newPayment(chain: Chain, options: PaymentOptions = {}): Promise<Payment> {
  const {
    payer = freshAccount(),
    asked,
    funds = 10_000n,
    requirements: given,
    ...signing
  } = options;
  await chain.fund(payer.address, funds);
  const requirements = requirementsFor(chain, given);
  const paymentPayload = await signPayment({ account: payer.account, requirements, ...signing });
  const { nonce } = paymentPayload.payload.authorization;
  const request = { paymentPayload, paymentRequirements: { ...requirements, ...asked } };
  return { payer, requirements, request, nonce };
}

/** The same as a client of version 2 signs it, and what its seller asks for, in the official package's types. */
export async function signedV2(
  chain: Chain,
  beside: Pick<Partial<PaymentPayloadV2>, "resource" | "extensions"> = {},
  options: PaymentOptions = {},
) {
  const payment = await newPayment(chain, { overrides: { validAfter: "0" }, ...options });
  const { request } = payment;
  const paid: OfficialPayload = JSON.parse(JSON.stringify({ ...paymentV2(request), ...beside }));
  return {
    ...payment,
    paid,
    wanted: requirementsV2(request.paymentRequirements, PAYMENT_FLOW) as OfficialRequirements,
  };
}

const tokenEvents = parseAbi([
  "event Transfer(address indexed from, address indexed to, uint256 value)",
  "event AuthorizationUsed(address indexed authorizer, bytes32 indexed nonce)",
]);

/** What a transaction did, read from the chain itself. */
export async function transactionOf(chain: Chain, hash: string) {
  const [sent, receipt] = await Promise.all([
    chain.rpc("eth_getTransactionByHash", [hash]),
    chain.rpc("eth_getTransactionReceipt", [hash]),
  ]);
  const { from, nonce, to } = sent as { from: Hex; nonce: Hex; to: Hex };
  const { logs, status, blockNumber } = receipt as { logs: Log[]; status: Hex; blockNumber: Hex };
  const events = parseEventLogs({ abi: tokenEvents, logs });
  return {
    from,
    to,
    accountNonce: Number(nonce),
    succeeded: status === "0x1",
    blockNumber: BigInt(blockNumber),
    events: events.map(({ eventName, address, args }) => ({ eventName, address, args })),
  };
}
