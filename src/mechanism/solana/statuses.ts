/**
 * What nodes say of signatures (`getSignatureStatuses`), asked for many transactions at once: a look that
 * finds no call in flight is asked at once, those that come meanwhile share the next call. A call that hangs
 * does not hold up the next one for long.
 */
import { OVER, type Time } from "../../time/time.ts";
import { ChainError } from "../mechanism.ts";
import type { RpcEndpoints } from "../rpc-endpoints.ts";
import { RpcRefusal, type Rpc } from "../rpc.ts";
import { sharedSignal, waitFor } from "../shared-call.ts";
import { isRecord } from "../../x402/json.ts";

/** Signatures that a node takes in one call. */
const MAX_SIGNATURES = 256;
/** After so long the next call does not wait for this one any more, milliseconds. */
const PATIENCE_MS = 1_000;
/** More than a hundred years of slots, as fast as they have ever been. */
const MAX_SLOT = 10_000_000_000;
/** The node keeps no history, so nothing is to be searched there (Agave, `rpc_custom_error.rs`). */
const NO_HISTORY = -32_011;

/** How much of the cluster has voted on a block: `confirmed` is two thirds, `finalized` cannot be undone. */
export type Depth = "processed" | "confirmed" | "finalized";

/** A transaction that is in a block. */
export interface SignatureStatus {
  readonly slot: number;
  /** Null when it succeeded, else the runtime's `TransactionError`. */
  readonly err: unknown;
  readonly depth: Depth;
}

/** What one node said of one signature. */
export interface SeenStatus {
  /** Null when the node knows of no block that holds it. */
  readonly status: SignatureStatus | null;
  /** The node's newest slot when it said so. */
  readonly slot: number;
  /** Who said so. */
  readonly rpc: Rpc;
  /** Whether it has looked further back than the last 300 blocks. */
  readonly isSearched: boolean;
}

/** How a status is asked for. */
export interface StatusQuestion {
  /** Also the blocks that the node's recent memory does not reach; costs the node more. */
  readonly isSearched: boolean;
  /** An endpoint that is to be asked last. */
  readonly avoid: Rpc | undefined;
}

export interface StatusesOptions {
  readonly endpoints: RpcEndpoints;
  readonly time: Time;
  /** Ends all calls. */
  readonly closing: AbortSignal;
}

type Answers = readonly SeenStatus[];

/** One batch for each endpoint that is avoided, or asked; and one for none. */
type Batches = Map<Rpc | undefined, Batch>;

export class Statuses {
  readonly #options: StatusesOptions;
  readonly #recent: Batches = new Map();
  readonly #searched: Batches = new Map();
  readonly #single: Batches = new Map();
  /** Nodes that keep no history. */
  readonly #forgetful = new Set<Rpc>();

  constructor(options: StatusesOptions) {
    this.#options = options;
  }

  /** By any endpoint. @throws {ChainError} when none can be asked */
  read(
    signature: string,
    { isSearched, avoid }: StatusQuestion,
    signal: AbortSignal,
  ): Promise<SeenStatus> {
    const { endpoints } = this.#options;
    const batch = this.#batch(
      isSearched ? this.#searched : this.#recent,
      avoid,
      (signatures, shared) =>
        endpoints.run((rpc) => this.#ask(rpc, signatures, isSearched, shared), shared, avoid),
    );
    return batch.read(signature, signal);
  }

  /** By this endpoint, searching its history. @throws {ChainError} when it cannot be asked */
  readAt(rpc: Rpc, signature: string, signal: AbortSignal): Promise<SeenStatus> {
    const batch = this.#batch(this.#single, rpc, (signatures, shared) =>
      this.#ask(rpc, signatures, true, shared),
    );
    return batch.read(signature, signal);
  }

  #batch(batches: Batches, rpc: Rpc | undefined, ask: Ask): Batch {
    const known = batches.get(rpc);
    if (known !== undefined) return known;
    const batch = new Batch(ask, this.#options);
    batches.set(rpc, batch);
    return batch;
  }

  async #ask(
    rpc: Rpc,
    signatures: readonly string[],
    isSearched: boolean,
    signal: AbortSignal,
  ): Promise<Answers> {
    const searches = isSearched && !this.#forgetful.has(rpc);
    try {
      return await readStatuses(rpc, signatures, searches, signal);
    } catch (error) {
      const isForgetful = error instanceof RpcRefusal && error.rpcCode === NO_HISTORY;
      if (!isForgetful || !searches) throw error;
      this.#forgetful.add(rpc);
      return readStatuses(rpc, signatures, false, signal);
    }
  }
}

type Ask = (signatures: readonly string[], signal: AbortSignal) => Promise<Answers>;

/** Collects signatures while a call is in flight. */
class Batch {
  readonly #ask: Ask;
  readonly #options: StatusesOptions;
  #waiting = new Map<string, PromiseWithResolvers<SeenStatus>>();
  #isWorking = false;

  constructor(ask: Ask, options: StatusesOptions) {
    this.#ask = ask;
    this.#options = options;
  }

  async read(signature: string, signal: AbortSignal): Promise<SeenStatus> {
    const known = this.#waiting.get(signature);
    const waiting = known ?? Promise.withResolvers<SeenStatus>();
    if (known === undefined) this.#waiting.set(signature, waiting);
    if (!this.#isWorking) void this.#work();
    return waitFor(waiting.promise, signal);
  }

  /** Never rejects. */
  async #work(): Promise<void> {
    this.#isWorking = true;
    // Those that ask in the same turn go together from the start.
    await Promise.resolve();
    while (this.#waiting.size > 0) {
      const together = [...this.#waiting].slice(0, MAX_SIGNATURES);
      for (const [signature] of together) this.#waiting.delete(signature);
      const done = new AbortController();
      const answering = this.#answer(together).finally(() => done.abort(OVER));
      await Promise.race([answering, this.#options.time.sleep(PATIENCE_MS, done.signal)]);
    }
    this.#isWorking = false;
  }

  /** Never rejects: who waits is told. */
  async #answer(
    together: readonly (readonly [string, PromiseWithResolvers<SeenStatus>])[],
  ): Promise<void> {
    try {
      const { time, closing } = this.#options;
      const signatures = together.map(([signature]) => signature);
      const answers = await this.#ask(signatures, sharedSignal(time, closing));
      for (const [index, [, waiting]] of together.entries()) {
        const answer = answers[index];
        if (answer !== undefined) waiting.resolve(answer);
      }
    } catch (error) {
      for (const [, waiting] of together) waiting.reject(error);
    }
  }
}

async function readStatuses(
  rpc: Rpc,
  signatures: readonly string[],
  isSearched: boolean,
  signal: AbortSignal,
): Promise<Answers> {
  const options = isSearched ? [{ searchTransactionHistory: true }] : [];
  const answer = await rpc.call("getSignatureStatuses", [signatures, ...options], signal);
  const slot = readContextSlot(answer);
  const values = isRecord(answer) ? answer["value"] : undefined;
  if (slot === undefined || !Array.isArray(values) || values.length !== signatures.length) {
    throw malformed(rpc);
  }
  return values.map((value: unknown): SeenStatus => {
    const status = readStatus(value);
    if (status === undefined) throw malformed(rpc);
    return { status, slot, rpc, isSearched };
  });
}

/** The slot at which a node answered: `context.slot`; undefined where there is none. */
export function readContextSlot(answer: unknown): number | undefined {
  const context = isRecord(answer) ? answer["context"] : undefined;
  const slot = isRecord(context) ? context["slot"] : undefined;
  return isSlot(slot) ? slot : undefined;
}

/** Whether it can be the number of a slot: a node's mistake must not count as knowledge of the far future. */
export function isSlot(value: unknown): value is number {
  return typeof value === "number" && Number.isInteger(value) && value >= 0 && value <= MAX_SLOT;
}

/** Undefined for what is no status. */
function readStatus(value: unknown): SignatureStatus | null | undefined {
  if (value === null) return null;
  if (!isRecord(value) || !isSlot(value["slot"]) || !("err" in value)) return undefined;
  const { slot, err, confirmationStatus: depth } = value;
  if (depth === "processed" || depth === "confirmed" || depth === "finalized") {
    return { slot, err, depth };
  }
  return undefined;
}

function malformed(rpc: Rpc): ChainError {
  const what = "not one status for each signature";
  return new ChainError("CHAIN_ANSWER", `getSignatureStatuses at ${rpc.host}: ${what}`);
}
