/**
 * A facilitator on a local Solana node, and attackers who want its fee payer to pay for what fails: their
 * payments are good when they are simulated, and something happens before the block that they are in.
 */
import { randomUUID } from "node:crypto";
import { setImmediate } from "node:timers/promises";
import { EmbeddedFacilitator } from "../../src/facilitator/embedded.ts";
import { NetworkGate } from "../../src/facilitator/network-gate.ts";
import { openSqliteLedger } from "../../src/ledger/sqlite.ts";
import { LIGHTHOUSE_PROGRAM } from "../../src/mechanism/solana/programs.ts";
import { Keypair } from "../../src/mechanism/solana/signing.ts";
import { createLogger } from "../../src/telemetry/logger.ts";
import { Metrics } from "../../src/telemetry/metrics.ts";
import type { FacilitatorRequest, SettleResponse } from "../../src/x402/x402.ts";
import { MovableTime } from "./movable-time.ts";
import {
  call,
  integer,
  layOut,
  memo,
  transfer,
  unitLimit,
  unitPrice,
  walletGuard,
  type Payment,
  type Plan,
} from "./solana-messages.ts";
import {
  devnet,
  devnetPayment,
  never,
  openSolanaMechanism,
  requestFor,
} from "./solana-requests.ts";
import { startSolanaNode, type SolanaNode } from "./solana/solana-node.ts";

/** How the attackers' payments are made to fail in their block. */
export const WAYS = ["the clock", "the payer's own lamports", "the fee payer's balance"] as const;
export type Way = (typeof WAYS)[number];

const CLOCK = "SysvarC1ock11111111111111111111111111111111";
/** To log as text what fails. */
const LEVEL = 4;
const AT_LEAST = 4;
const AT_MOST = 5;
const UNITS = 60_000;
/** Millionths of a lamport for each unit: with the signatures, a lamport less than the cap of 100,000. */
const HIGHEST_PRICE = 1_499_983;
const LOWEST_PRICE = 1;
const FEE_PAYER_LAMPORTS = 1_000_000_000_000n;
const PAYER_LAMPORTS = 10_000_000n;
/** A cent. */
const PRICE = 10_000n;

export interface GriefingStageOptions {
  /** Lamports; where it is not said, what is configured by default. */
  readonly lighthouseLossPerHour?: bigint;
}

export class GriefingStage implements AsyncDisposable {
  readonly node: SolanaNode;
  readonly #closing: AsyncDisposableStack;
  readonly #clock: MovableTime;
  readonly #facilitator: EmbeddedFacilitator;
  readonly #payTo: string;
  #count = 0;

  private constructor(parts: {
    node: SolanaNode;
    closing: AsyncDisposableStack;
    clock: MovableTime;
    facilitator: EmbeddedFacilitator;
    payTo: string;
  }) {
    this.node = parts.node;
    this.#closing = parts.closing;
    this.#clock = parts.clock;
    this.#facilitator = parts.facilitator;
    this.#payTo = parts.payTo;
  }

  static async open(options: GriefingStageOptions = {}): Promise<GriefingStage> {
    await using closing = new AsyncDisposableStack();
    const node = closing.use(await startSolanaNode({ slotMs: null }));
    node.loadLighthouseStandIn();
    const { feePayer, payTo } = devnetPayment();
    node.setLamports(feePayer, FEE_PAYER_LAMPORTS);
    await node.fundToken({ mint: devnet().asset.address, owner: payTo, amount: 0n });
    const time = new MovableTime();
    const logger = createLogger({ level: "silent", format: "json" });
    const telemetry = { logger, metrics: new Metrics("test") };
    const ledger = await openSqliteLedger({ path: ":memory:", time, life: randomUUID() });
    closing.defer(() => ledger.close());
    const mechanism = openSolanaMechanism({ rpcUrls: [node.rpcUrl], time, ...options });
    closing.defer(() => mechanism.close());
    const gate = new NetworkGate([mechanism], telemetry, time);
    closing.defer(() => gate.close());
    await gate.probe();
    const facilitator = new EmbeddedFacilitator({
      mechanisms: [mechanism],
      ledger,
      gate,
      telemetry,
      time,
      describeAsset: () => ({ symbol: "USDC", decimals: 6 }),
    });
    closing.defer(() => facilitator.close());
    return new GriefingStage({ node, closing: closing.move(), clock: time, facilitator, payTo });
  }

  /** Lamports of the fee payer that are gone. */
  get spent(): bigint {
    return FEE_PAYER_LAMPORTS - this.node.lamportsOf(devnetPayment().feePayer);
  }

  /** Somebody who owns one price, and some lamports. */
  async payer(): Promise<Keypair> {
    this.#count += 1;
    const seed = Buffer.alloc(32, 7);
    seed.writeUInt32LE(this.#count);
    const payer = new Keypair(seed);
    this.node.setLamports(payer.address, PAYER_LAMPORTS);
    await this.fund(payer);
    return payer;
  }

  /** One price more. */
  async fund({ address: owner }: Keypair): Promise<void> {
    await this.node.fundToken({ mint: devnet().asset.address, owner, amount: PRICE });
  }

  tokensOf(payer: Keypair): Promise<bigint> {
    return this.node.tokenBalanceOf(payer.address, devnet().asset.address);
  }

  /** Facilitator and attackers find themselves so much later. */
  advance(ms: number): void {
    this.#clock.offsetMs += ms;
  }

  /** Buys without assertions, or with those that Phantom adds. */
  async buy(payer: Keypair, layout: "svm" | "phantom"): Promise<SettleResponse> {
    const payment = this.#payment(payer);
    const plan = { ...layOut(layout, payment, { memo: this.#note() }), blockhash: this.#blockhash };
    return this.#settle(requestFor(plan, payment), () => undefined);
  }

  /** Presents a payment that fails in its block, if it ever gets there. */
  async attack(way: Way, payer: Keypair, bid: "high" | "low" = "high"): Promise<SettleResponse> {
    const payment = this.#payment(payer);
    this.node.setLamports(payer.address, PAYER_LAMPORTS);
    const price = bid === "high" ? HIGHEST_PRICE : LOWEST_PRICE;
    const guard = this.#guard(way, payment, bid);
    const instructions = [
      unitLimit(UNITS),
      unitPrice(price),
      transfer(payment),
      memo(this.#note()),
      guard,
    ];
    const plan: Plan = {
      instructions,
      feePayer: payment.feePayer,
      signers: [payer],
      blockhash: this.#blockhash,
    };
    return this.#settle(requestFor(plan, payment), () => this.#spring(way, payment));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#closing.disposeAsync();
  }

  #guard(way: Way, { feePayer, payer }: Payment, bid: "high" | "low") {
    switch (way) {
      case "the clock": {
        const now = [15, LEVEL, ...integer(this.node.slot + 1, 8), AT_MOST];
        return call(LIGHTHOUSE_PROGRAM, now, [CLOCK]);
      }
      case "the payer's own lamports": {
        const kept = [6, LEVEL, 1, 0, ...integer(PAYER_LAMPORTS, 8), AT_LEAST];
        return call(LIGHTHOUSE_PROGRAM, kept, [payer.address]);
      }
      case "the fee payer's balance": {
        const fee = bid === "high" ? 99_999n : 10_001n;
        return walletGuard(feePayer, this.node.lamportsOf(feePayer) - fee);
      }
    }
  }

  /** What happens between the simulation and the block. */
  #spring(way: Way, { payer, feePayer }: Payment): void {
    if (way === "the clock") this.node.tick();
    // His own transfer, which costs him 5,000 lamports; or anybody's settlement, for which we pay anyway.
    if (way === "the payer's own lamports") this.node.setLamports(payer.address, 1_000_000n);
    if (way === "the fee payer's balance") {
      this.node.setLamports(feePayer, this.node.lamportsOf(feePayer) - 10_000n);
    }
  }

  async #settle(request: FacilitatorRequest, spring: () => void): Promise<SettleResponse> {
    const { node } = this;
    node.resetCalls();
    const over = new AbortController();
    const settling = this.#facilitator
      .settle(request, { signal: never })
      .finally(() => over.abort());
    await Promise.race([node.asked("simulateTransaction"), settling]);
    if (!over.signal.aborted) spring();
    while (!over.signal.aborted) {
      await setImmediate();
      if (node.queued > 0) node.tick(2);
    }
    return settling;
  }

  #payment(payer: Keypair): Payment {
    return devnetPayment({ payer, payTo: this.#payTo, amount: PRICE });
  }

  /** No two payments are alike. */
  #note(): string {
    return randomUUID();
  }

  get #blockhash(): string {
    return this.node.blockhash;
  }
}
