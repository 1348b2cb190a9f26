/**
 * Sends signed bytes to every endpoint at once. One of them, where it offers that, is asked to answer only
 * when they are in a block (`eth_sendRawTransactionSync`, EIP-7966), which saves asking for the receipt
 * again and again. Such a call waits for a block, so it has connections of its own and a limit.
 */
import { ChainError, type SignedTransaction } from "../mechanism.ts";
import { RpcRefusal, type Rpc, firstReason } from "../rpc.ts";
import type { RpcEndpoints, WritableEndpoint } from "../rpc-endpoints.ts";
import { isRecord } from "../../x402/json.ts";

/** Longest wait for the block, milliseconds; after it the bytes are sent the usual way. */
export const SYNC_TIMEOUT_MS = 2_500;
/** Calls that wait for a block at once, at one endpoint; more of them are sent the usual way. */
export const MAX_SYNC_CALLS = 16;

/**
 * Answers to `eth_sendRawTransaction` after which the transaction may well be on its way: the node has it
 * already, or has seen its account nonce used, by us before a crash or by the very same bytes. The texts
 * are those of geth, Erigon, Nethermind, Besu, reth and anvil.
 */
const POSSIBLY_SENT =
  /already (?:known|imported|exists)|alreadyknown|known transaction|already in (?:the )?(?:mem)?pool|nonce.{0,12}too low|nonce.{0,20}(?:used|expired)|oldnonce|could not replace|replacement (?:transaction|fee)/i;

/** JSON-RPC and EIP-1474: there is no such method, or it is not for us. */
const NOT_OFFERED: ReadonlySet<number> = new Set([-32_601, -32_600, -32_004]);
const NOT_OFFERED_TEXT = /method|not (?:found|supported|available|allowed)|unknown|unauthori/i;
/** What nodes say of a transaction without a byte. */
const EMPTY_TRANSACTION = /rlp|empty|short|decod|invalid|missing|transaction|param/i;

/** Whether an endpoint has the method: asked once, with a transaction that no node can take. */
async function offersSync(rpc: Rpc, signal: AbortSignal): Promise<boolean> {
  try {
    await rpc.call("eth_sendRawTransactionSync", ["0x"], signal);
    return false;
  } catch (error) {
    if (!(error instanceof RpcRefusal)) throw error;
    const { rpcCode, rpcMessage } = error;
    if (rpcCode === -32_602) return true;
    if (NOT_OFFERED.has(rpcCode) || NOT_OFFERED_TEXT.test(rpcMessage)) return false;
    return EMPTY_TRANSACTION.test(rpcMessage);
  }
}

interface SyncEndpoint {
  isOffered: boolean;
  inFlight: number;
  /** Connections of its own; opened when it is offered. */
  waiting: Rpc | undefined;
}

export interface BroadcastOptions {
  readonly endpoints: RpcEndpoints;
  /** A second client of the same endpoint, for calls that wait. */
  readonly openWaiting: (rpc: Rpc) => Rpc;
}

export class Broadcast {
  readonly #endpoints: RpcEndpoints;
  readonly #openWaiting: BroadcastOptions["openWaiting"];
  /** Those that were asked whether they offer it. */
  readonly #sync = new Map<Rpc, SyncEndpoint>();

  constructor({ endpoints, openWaiting }: BroadcastOptions) {
    this.#endpoints = endpoints;
    this.#openWaiting = openWaiting;
  }

  /** Asks an endpoint once what it offers; one that cannot be asked now is asked again next time. */
  async discover(rpc: Rpc, signal: AbortSignal): Promise<void> {
    if (this.#sync.has(rpc)) return;
    const isOffered = await offersSync(rpc, signal);
    if (this.#sync.has(rpc)) return;
    const waiting = isOffered ? this.#openWaiting(rpc) : undefined;
    this.#sync.set(rpc, { isOffered, inFlight: 0, waiting });
  }

  /** See `Mechanism.broadcast`. */
  async send(signed: SignedTransaction, signal: AbortSignal): Promise<"sent" | "included"> {
    const targets = this.#endpoints.forAll(signal);
    const waiting = targets.find(({ rpc }) => this.#mayWait(rpc));
    const sendings = targets.map((target) => {
      return target === waiting
        ? this.#sendAndWait(target, signed, signal)
        : sendPlainly(target, signed, signal);
    });
    // All of them are on their way now; none is left without somebody to hear of its end.
    const first = Promise.any(sendings);
    first.catch(() => undefined);
    if (waiting !== undefined) {
      const answer = await sendings[targets.indexOf(waiting)]?.catch(() => undefined);
      if (answer === "included") return answer;
    }
    return first.catch((cause: unknown) => {
      this.#endpoints.doubt();
      throw firstReason(cause);
    });
  }

  async close(): Promise<void> {
    for (const { waiting } of this.#sync.values()) await waiting?.close();
  }

  #mayWait(rpc: Rpc): boolean {
    const sync = this.#sync.get(rpc);
    return sync !== undefined && sync.isOffered && sync.inFlight < MAX_SYNC_CALLS;
  }

  async #sendAndWait(
    target: WritableEndpoint,
    signed: SignedTransaction,
    signal: AbortSignal,
  ): Promise<"sent" | "included"> {
    const sync = this.#sync.get(target.rpc);
    if (sync?.waiting === undefined) return sendPlainly(target, signed, signal);
    sync.inFlight += 1;
    try {
      await target.ready;
      const receipt = await sync.waiting.call("eth_sendRawTransactionSync", [signed.raw], signal);
      const isOurs = isRecord(receipt) && receipt["transactionHash"] === signed.transaction;
      if (isOurs) return "included";
    } catch (error) {
      if (!(error instanceof ChainError)) throw error;
      if (error instanceof RpcRefusal && NOT_OFFERED.has(error.rpcCode)) sync.isOffered = false;
    } finally {
      sync.inFlight -= 1;
    }
    // Too long for this call, or refused: the usual call says which, and takes what is there already.
    return sendPlainly(target, signed, signal);
  }
}

async function sendPlainly(
  { rpc, ready }: WritableEndpoint,
  { raw }: SignedTransaction,
  signal: AbortSignal,
): Promise<"sent"> {
  await ready;
  try {
    await rpc.call("eth_sendRawTransaction", [raw], signal);
  } catch (error) {
    if (!(error instanceof RpcRefusal) || !POSSIBLY_SENT.test(error.rpcMessage)) throw error;
  }
  return "sent";
}
