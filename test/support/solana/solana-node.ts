/**
 * A local Solana node for tests: the real runtime (LiteSVM, with the real Token, Token-2022, associated
 * token account, Memo and lookup table programs) behind the JSON-RPC and websocket interface of a
 * validator, with slots, commitment, expiring blockhashes, and faults on demand.
 *
 *     await using node = await startSolanaNode({ slotMs: 20 });
 *     node.fundSol(feePayer, 1_000_000_000n);
 *     await node.fundToken({ mint: USDC_DEVNET, owner: buyer, amount: 5_000_000n });
 *     const lost = node.inject({ method: "sendTransaction", lose: true, times: 1 });
 *     …settle through node.rpcUrl…
 *     expect(lost.hits).toBe(1);
 */
import { systemTime, type Time } from "../../../src/time/time.ts";
import { Cluster } from "./cluster.ts";
import { controlMethods } from "./control-methods.ts";
import { Faults, type Injected, type Injection } from "./faults.ts";
import { Dispatch } from "./rpc-dispatch.ts";
import { RpcServer, type WebsocketMode, type WebsocketPlace } from "./rpc-server.ts";
import { SetUp } from "./set-up.ts";
import { Subscriptions } from "./subscriptions.ts";

/** Genesis hashes of the real networks, by the name that payments use. */
export const GENESIS_HASHES = {
  solana: "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d",
  "solana-devnet": "EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG",
} as const;

/** A real slot, milliseconds. */
const SLOT_MS = 400;

export interface SolanaNodeOptions {
  /** Default: any free one. */
  readonly port?: number;
  /** Default `same-port`. */
  readonly websocket?: WebsocketPlace;
  /** Default 400; null: time passes by `tick` alone. */
  readonly slotMs?: number | null;
  /** Slots until a block is confirmed; default 1. */
  readonly confirmedAfterSlots?: number;
  /** Slots until a block is final; default 32. */
  readonly finalizedAfterSlots?: number;
  /** Default: that of `solana-devnet`. */
  readonly genesisHash?: string;
  /** From which blockhashes are made; default random. */
  readonly seed?: string;
  /** For block times; slots have a timer of their own. */
  readonly time?: Pick<Time, "now">;
}

/** The set-up is on the handle itself: `fundSol`, `fundToken`, `createMint`, … */
export class SolanaNode extends SetUp {
  readonly rpcUrl: string;
  /** Null when the websocket is off. */
  readonly wsUrl: string | null;
  readonly #parts: Parts;

  constructor(parts: Parts, ports: { readonly http: number; readonly websocket: number | null }) {
    super(parts.cluster, parts.setUp.mintAuthority);
    this.#parts = parts;
    this.rpcUrl = `http://127.0.0.1:${ports.http}`;
    this.wsUrl = ports.websocket === null ? null : `ws://127.0.0.1:${ports.websocket}`;
  }

  /** The newest slot, which is the `processed` one. */
  get slot(): number {
    return this.#parts.cluster.tip.slot;
  }

  /** The newest blockhash. */
  get blockhash(): string {
    return this.#parts.cluster.tip.blockhash;
  }

  /** Transactions that wait for the next slot. */
  get queued(): number {
    return this.#parts.cluster.queued;
  }

  /** Websocket subscriptions that wait for something. */
  get subscriptions(): number {
    return this.#parts.subscriptions.count;
  }

  /** Makes so many slots at once. */
  tick(slots = 1): void {
    this.#parts.cluster.tick(slots);
  }

  /** How long a slot takes from now on; null freezes the cluster. */
  setSlotMs(ms: number | null): void {
    this.#parts.clock.set(ms);
  }

  /** The first injection that matches a call is the one it meets. */
  inject(injection: Injection): Injected {
    return this.#parts.faults.inject(injection);
  }

  /** Ends all faults, those of the websocket included. */
  lift(): void {
    this.#parts.faults.lift();
    this.setWebsocket("normal");
  }

  setWebsocket(mode: WebsocketMode): void {
    this.#parts.server.setMode(mode);
  }

  /** Ends every websocket connection; new ones are welcome. */
  disconnectWebsockets(): void {
    this.#parts.server.disconnect();
  }

  /** How often each method was called since the last reset, websocket methods included. */
  calls(): Readonly<Record<string, number>> {
    return this.#parts.dispatch.calls;
  }

  count(method: string): number {
    return this.calls()[method] ?? 0;
  }

  /** Forgets the counts and `sent`. */
  resetCalls(): void {
    this.#parts.dispatch.resetCalls();
  }

  /** Resolves once a method has been called so many times since the last reset. */
  asked(method: string, times = 1): Promise<void> {
    return this.#parts.dispatch.asked(method, times);
  }

  /** What `sendTransaction` was given since the last reset: base64, in order, faults or not. */
  get sent(): readonly string[] {
    return this.#parts.dispatch.sent;
  }

  async stop(): Promise<void> {
    this.#parts.clock.set(null);
    this.#parts.faults.lift();
    await this.#parts.server.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }
}

interface Parts {
  readonly cluster: Cluster;
  readonly faults: Faults;
  readonly setUp: SetUp;
  readonly dispatch: Dispatch;
  readonly subscriptions: Subscriptions;
  readonly server: RpcServer;
  readonly clock: SlotClock;
}

/** Starts the node; it answers when the promise resolves. */
export async function startSolanaNode(options: SolanaNodeOptions = {}): Promise<SolanaNode> {
  const { time = systemTime, slotMs = SLOT_MS, websocket = "same-port", port = 0 } = options;
  const cluster = new Cluster({ ...options, now: time.now });
  const setUp = new SetUp(cluster);
  const faults = new Faults();
  const clock = new SlotClock(() => cluster.tick());
  const control = controlMethods({
    cluster,
    faults,
    setUp,
    dispatch: () => dispatch,
    setSlotMs: (ms) => clock.set(ms),
    setWebsocket: (mode) => server.setMode(mode),
  });
  const genesisHash = options.genesisHash ?? GENESIS_HASHES["solana-devnet"];
  const dispatch = new Dispatch({ cluster, faults, genesisHash, control });
  const subscriptions = new Subscriptions(cluster, (method) => dispatch.note(method));
  const server = new RpcServer(dispatch, subscriptions, websocket);
  const ports = await server.open(port);
  clock.set(slotMs);
  const parts = { cluster, faults, setUp, dispatch, subscriptions, server, clock };
  return new SolanaNode(parts, ports);
}

class SlotClock {
  readonly #tick: () => void;
  #timer: NodeJS.Timeout | undefined;

  constructor(tick: () => void) {
    this.#tick = tick;
  }

  set(ms: number | null): void {
    clearInterval(this.#timer);
    this.#timer = ms === null ? undefined : setInterval(this.#tick, ms);
  }
}
