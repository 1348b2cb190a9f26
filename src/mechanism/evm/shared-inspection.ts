/**
 * Verifications of concurrent buyers, shared in one `eth_call`. A payment that finds nothing in flight is
 * asked about at once; those that arrive meanwhile are asked about together when the answer is there, or
 * after a short wait. All reads stand before all transfers, and no payer is in one call twice: so nobody's
 * simulated transfer makes another's look good.
 */
import type { Refusal, Result } from "../../x402/result.ts";
import { crowded, MAX_PROVEN_WAITING } from "../judging-lane.ts";
import { ChainError } from "../mechanism.ts";
import type { RpcEndpoints } from "../rpc-endpoints.ts";
import type { EvmCheckedAuthorization } from "./authorization.ts";
import { inspect, inspectTogether, type EvmJudged } from "./inspection.ts";

/** Payments in one call at most: 32 simulations stay far below the gas that nodes allow a call. */
const MAX_TOGETHER = 32;
/**
 * Calls in flight. With those about single payments they take three of four connections to an endpoint: broadcasts,
 * fees and receipts always find one.
 */
const MAX_SHARED_CALLS = 32;
/** Longest that a payment waits for the call before it, milliseconds. */
const MAX_WAIT_MS = 20;

/** Undefined: others may have had a part in it; to be asked about alone. */
type Verdict = Result<EvmJudged, Refusal> | undefined;

interface Waiting {
  readonly authorization: EvmCheckedAuthorization;
  readonly verdict: PromiseWithResolvers<Verdict>;
}

export class SharedInspection {
  readonly #endpoints: RpcEndpoints;
  readonly #gasLimit: bigint;
  #waiting: Waiting[] = [];
  #inFlight = 0;
  #timer: NodeJS.Timeout | undefined;

  /** @param gasLimit of one simulated transfer */
  constructor(endpoints: RpcEndpoints, gasLimit: bigint) {
    this.#endpoints = endpoints;
    this.#gasLimit = gasLimit;
  }

  /**
   * For payers whose signature was proven.
   * @throws {ChainError} when the chain cannot be asked, `CHAIN_BUSY` where too many wait
   */
  async inspect(authorization: EvmCheckedAuthorization, signal: AbortSignal): Promise<Verdict> {
    if (this.#waiting.length >= MAX_PROVEN_WAITING) throw crowded();
    const waiting = { authorization, verdict: Promise.withResolvers<Verdict>() };
    this.#waiting.push(waiting);
    if (this.#inFlight === 0) this.#ask();
    else this.#timer ??= setTimeout(() => this.#ask(), MAX_WAIT_MS);
    const giveUp = (): void => {
      this.#waiting = this.#waiting.filter((each) => each !== waiting);
      waiting.verdict.reject(new ChainError("CHAIN_TIMEOUT", "the chain did not answer in time"));
    };
    signal.addEventListener("abort", giveUp, { once: true });
    if (signal.aborted) giveUp();
    try {
      return await waiting.verdict.promise;
    } finally {
      signal.removeEventListener("abort", giveUp);
    }
  }

  #ask(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#inFlight >= MAX_SHARED_CALLS) return;
    // The oldest that may go together: each payer once.
    const payers = new Set<string>();
    const together: Waiting[] = [];
    const staying: Waiting[] = [];
    for (const waiting of this.#waiting) {
      const { from, token } = waiting.authorization;
      const payer = `${token.address}/${from}`;
      if (together.length === MAX_TOGETHER || payers.has(payer)) staying.push(waiting);
      else together.push(waiting);
      payers.add(payer);
    }
    this.#waiting = staying;
    if (together.length === 0) return;
    this.#inFlight += 1;
    void this.#answer(together).finally(() => {
      this.#inFlight -= 1;
      this.#ask();
    });
    if (this.#waiting.length > 0) this.#timer = setTimeout(() => this.#ask(), MAX_WAIT_MS);
  }

  /** Never rejects: each waiting payment gets its own verdict or its own error. */
  async #answer(together: readonly Waiting[]): Promise<void> {
    // The client's own time limit bounds the call; whoever waits for it may give up sooner.
    const { signal } = new AbortController();
    const authorizations = together.map(({ authorization }) => authorization);
    const [first] = authorizations;
    try {
      const verdicts = await this.#endpoints.run(async (rpc): Promise<readonly Verdict[]> => {
        if (first === undefined || authorizations.length > 1) {
          return inspectTogether(rpc, authorizations, this.#gasLimit, signal);
        }
        return [await inspect(rpc, first, this.#gasLimit, signal)];
      }, signal);
      for (const [index, { verdict }] of together.entries()) verdict.resolve(verdicts[index]);
    } catch (cause) {
      for (const { verdict } of together) {
        if (together.length > 1) verdict.resolve(undefined);
        else verdict.reject(cause);
      }
    }
  }
}
