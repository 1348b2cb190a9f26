/**
 * Several RPC endpoints of one network, in the operator's order. An operation is asked wholly of one of
 * them, so that its answers fit together; where that one fails, the whole operation is asked of the next.
 *
 *     usable ── failed ──> resting (1, 2, 4 … 60 s) ── answers a check ──> usable
 *        └──── its head is far behind the best ──> behind ── caught up ──> usable
 *
 * Who rests or is behind is asked last, never left out: when all are bad, the least bad one is tried. Each
 * shows its network before its first use, and again after a failure; who serves another one is left out.
 */
import { ChainError } from "./mechanism.ts";
import { RpcAnswerTooLarge, RpcRefusal, type Rpc } from "./rpc.ts";

/** Pause after the first failure in a row, seconds; each further one doubles it. */
const FIRST_REST_SECONDS = 1;
/** Longest pause before a failed endpoint is checked again, seconds. */
const MAX_REST_SECONDS = 60;
/** How often the heads of several endpoints are compared while they are in use, seconds. */
const CHECK_SECONDS = 5;
/** A caller that gave up after so long was kept waiting by the endpoint, seconds. */
const HUNG_SECONDS = 2;

/** An EVM node's words about the call itself: any other node would answer the same. */
const ABOUT_THE_CALL = /revert|out ?of ?gas|intrinsic gas|gas (?:limit|required|allowance)/i;

/**
 * Told when an endpoint becomes usable or stops being so, and (undefined) when it is asked no more; the host is all
 * that may be shown of its URL.
 */
export type HealthObserver = (host: string, isHealthy: boolean | undefined) => void;

export interface RpcEndpointsOptions {
  /** In order of preference, at least one; closed together with this. */
  readonly rpcs: readonly Rpc[];
  /**
   * Undefined for an endpoint that serves this network, else what it serves instead.
   * @throws {ChainError} when it cannot be asked
   */
  readonly identify: (rpc: Rpc, signal: AbortSignal) => Promise<string | undefined>;
  /** The number of its newest block. @throws {ChainError} when it cannot be asked */
  readonly readHead: (rpc: Rpc, signal: AbortSignal) => Promise<bigint>;
  /** An endpoint further behind the best head is not used while there is a fresher one. */
  readonly maxLagBlocks: bigint;
  /** Whether a node's error is about the call itself, so that any other would answer it. Default: EVM's. */
  readonly isAboutTheCall?: (refusal: RpcRefusal) => boolean;
  /** Unix seconds. */
  readonly clock: () => number;
  readonly onHealth?: HealthObserver | undefined;
  /**
   * Hears that an operation found no endpoint that could answer, or nothing that our account could pay with, and that
   * no endpoint took what we have signed.
   */
  readonly onDoubt?: (() => void) | undefined;
}

interface Endpoint {
  readonly rpc: Rpc;
  identity: "unknown" | "right" | "wrong";
  /** In a row. */
  failures: number;
  /** Unix seconds; not checked again before. */
  restsUntil: number;
  head: bigint | undefined;
  isBehind: boolean;
  /** As last told to the observer. */
  isHealthy: boolean | undefined;
}

/** What {@link RpcEndpoints.identifyAll} found about one endpoint. */
export type Identification =
  | { readonly kind: "right"; readonly rpc: Rpc }
  | { readonly kind: "wrong"; readonly rpc: Rpc; readonly detail: string }
  | { readonly kind: "unreachable"; readonly rpc: Rpc; readonly error: ChainError };

export interface WritableEndpoint {
  readonly rpc: Rpc;
  /** Settles when it has shown its network, or could not. */
  readonly ready: Promise<void>;
}

export class RpcEndpoints {
  readonly #options: RpcEndpointsOptions;
  readonly #endpoints: readonly Endpoint[];
  readonly #closing = new AbortController();
  #checkedAt = Number.NEGATIVE_INFINITY;
  #checking: Promise<unknown> = Promise.resolve();

  constructor(options: RpcEndpointsOptions) {
    this.#options = options;
    this.#endpoints = options.rpcs.map((rpc) => ({
      rpc,
      identity: "unknown",
      failures: 0,
      restsUntil: 0,
      head: undefined,
      isBehind: false,
      isHealthy: undefined,
    }));
  }

  /**
   * One operation at one endpoint; from the start again at the next one when that endpoint fails. An
   * endpoint that is to be avoided is asked last.
   * @throws {ChainError} of the first endpoint asked, when none could answer
   */
  async run<Value>(
    work: (rpc: Rpc) => Promise<Value>,
    signal: AbortSignal,
    avoid?: Rpc,
  ): Promise<Value> {
    this.#checkSometimes();
    const failures: unknown[] = [];
    let isInVain = false;
    for (const endpoint of this.#inOrder(avoid)) {
      const askedAt = this.#options.clock();
      try {
        await this.#requireIdentity(endpoint, signal);
        const value = await work(endpoint.rpc);
        this.#answered(endpoint);
        return value;
      } catch (error) {
        if (!this.#isEndpointFault(error)) {
          if (error instanceof ChainError && error.code === "CHAIN_GAS") this.#options.onDoubt?.();
          throw error;
        }
        const waited = this.#options.clock() - askedAt;
        const isBlamed = !signal.aborted || waited >= HUNG_SECONDS;
        if (isBlamed) this.#failed(endpoint);
        isInVain ||= isBlamed;
        failures.push(error);
        if (signal.aborted) break;
      }
    }
    // Whoever gave up early says nothing about the network.
    if (isInVain || failures.length === 0) this.#options.onDoubt?.();
    throw failures[0] ?? this.#noneLeft();
  }

  /**
   * Every endpoint that may be written to, in order of preference.
   * @throws {ChainError} when all serve another network
   */
  forAll(signal: AbortSignal): readonly WritableEndpoint[] {
    this.#checkSometimes();
    const endpoints = this.#inOrder(undefined);
    if (endpoints.length === 0) throw this.#noneLeft();
    return endpoints.map((endpoint) => {
      const ready = this.#requireIdentity(endpoint, signal);
      ready.catch(() => undefined);
      return { rpc: endpoint.rpc, ready };
    });
  }

  /**
   * Asks every endpoint which network it serves, and several how far they are; one that answers otherwise
   * than before is believed.
   */
  async identifyAll(signal: AbortSignal): Promise<readonly Identification[]> {
    this.#checkedAt = this.#options.clock();
    const found = await Promise.all(
      this.#endpoints.map(async (endpoint): Promise<Identification> => {
        const { rpc } = endpoint;
        try {
          const detail = await this.#identify(endpoint, signal);
          if (detail === undefined && this.#endpoints.length > 1) {
            endpoint.head = await this.#options.readHead(rpc, signal);
          }
          if (detail === undefined) this.#answered(endpoint);
          return detail === undefined ? { kind: "right", rpc } : { kind: "wrong", rpc, detail };
        } catch (error) {
          if (!(error instanceof ChainError)) throw error;
          if (!signal.aborted) this.#failed(endpoint);
          return { kind: "unreachable", rpc, error };
        }
      }),
    );
    this.#compareHeads();
    return found;
  }

  /** None of {@link forAll} has taken what was written. */
  doubt(): void {
    this.#options.onDoubt?.();
  }

  /** Resolves when the checks that run beside the operations have ended. */
  async settled(): Promise<void> {
    await this.#checking;
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.settled();
    for (const { rpc, isHealthy } of this.#endpoints) {
      if (isHealthy !== undefined) this.#options.onHealth?.(rpc.host, undefined);
    }
    await Promise.all(this.#endpoints.map(({ rpc }) => rpc.close()));
  }

  #inOrder(avoid: Rpc | undefined): readonly Endpoint[] {
    const rank = ({ rpc, failures, isBehind }: Endpoint): number => {
      if (failures > 0) return 3;
      if (isBehind) return 2;
      return rpc === avoid ? 1 : 0;
    };
    const usable = this.#endpoints.filter(({ identity }) => identity !== "wrong");
    // Equal ones stay in the operator's order; of those that rest, the one that rests shortest is first.
    return usable.toSorted(
      (left, right) => rank(left) - rank(right) || left.restsUntil - right.restsUntil,
    );
  }

  async #requireIdentity(endpoint: Endpoint, signal: AbortSignal): Promise<void> {
    if (endpoint.identity === "right") return;
    const detail = await this.#identify(endpoint, signal);
    if (detail !== undefined) throw new ChainError("CHAIN_ANSWER", detail);
  }

  async #identify(endpoint: Endpoint, signal: AbortSignal): Promise<string | undefined> {
    const detail = await this.#options.identify(endpoint.rpc, signal);
    endpoint.identity = detail === undefined ? "right" : "wrong";
    if (detail !== undefined) endpoint.restsUntil = this.#options.clock() + MAX_REST_SECONDS;
    this.#tell(endpoint);
    return detail;
  }

  #answered(endpoint: Endpoint): void {
    endpoint.failures = 0;
    endpoint.restsUntil = 0;
    this.#tell(endpoint);
  }

  #failed(endpoint: Endpoint): void {
    endpoint.failures += 1;
    const rest = Math.min(FIRST_REST_SECONDS * 2 ** (endpoint.failures - 1), MAX_REST_SECONDS);
    endpoint.restsUntil = this.#options.clock() + rest;
    this.#tell(endpoint);
  }

  #tell(endpoint: Endpoint): void {
    const { identity, failures, isBehind, isHealthy } = endpoint;
    const now = identity !== "wrong" && failures === 0 && !isBehind;
    if (now === isHealthy || this.#closing.signal.aborted) return;
    endpoint.isHealthy = now;
    this.#options.onHealth?.(endpoint.rpc.host, now);
  }

  /** Beside the operations, so that none of them waits for an endpoint that it does not need. */
  #checkSometimes(): void {
    const now = this.#options.clock();
    const isDue = now - this.#checkedAt >= CHECK_SECONDS || now < this.#checkedAt;
    // A lone endpoint has nobody to be compared with, and is asked whatever state it is in.
    const isNeeded =
      this.#endpoints.length > 1 || this.#endpoints.some(({ identity }) => identity === "wrong");
    if (!isNeeded || !isDue || this.#closing.signal.aborted) return;
    this.#checkedAt = now;
    this.#checking = this.#check(now);
  }

  /** Never rejects. */
  async #check(now: number): Promise<void> {
    const { signal } = this.#closing;
    await Promise.all(
      this.#endpoints.map(async (endpoint) => {
        endpoint.head = undefined;
        if (endpoint.restsUntil > now) return;
        try {
          // One that failed may have come back as something else.
          if (endpoint.failures > 0 || endpoint.identity !== "right") {
            if ((await this.#identify(endpoint, signal)) !== undefined) return;
          }
          endpoint.head = await this.#options.readHead(endpoint.rpc, signal);
          this.#answered(endpoint);
        } catch {
          if (!signal.aborted) this.#failed(endpoint);
        }
      }),
    );
    this.#compareHeads();
  }

  #compareHeads(): void {
    let best = 0n;
    for (const { head } of this.#endpoints) if (head !== undefined && head > best) best = head;
    for (const endpoint of this.#endpoints) {
      if (endpoint.head === undefined) continue;
      endpoint.isBehind = best - endpoint.head > this.#options.maxLagBlocks;
      this.#tell(endpoint);
    }
  }

  /** Whether another endpoint may do better: our own limits and a call that fails are the same anywhere. */
  #isEndpointFault(error: unknown): boolean {
    if (!(error instanceof ChainError)) return false;
    const { isAboutTheCall = isReverted } = this.#options;
    if (error instanceof RpcRefusal) return !isAboutTheCall(error);
    if (error instanceof RpcAnswerTooLarge) return false;
    return error.code !== "CHAIN_FEE" && error.code !== "CHAIN_GAS";
  }

  #noneLeft(): ChainError {
    return new ChainError("CHAIN_ANSWER", "no RPC endpoint serves the configured network");
  }
}

function isReverted({ rpcMessage }: RpcRefusal): boolean {
  return ABOUT_THE_CALL.test(rpcMessage);
}
