/**
 * A facilitator on a local Solana node, and attackers who want its fee payer to pay for what fails: their
 * payments are good when they are simulated, and something happens before the block that they are in.
 */
import { onTheWire } from "../../src/facilitator/wire-facilitator.ts";
import { randomUUID } from "node:crypto";
import { setImmediate } from "node:timers/promises";
import { EmbeddedFacilitator } from "../../src/payments/settlement/embedded.ts";
import { NetworkGate } from "../../src/payments/settlement/network-gate.ts";
import { openSqliteLedger } from "../../src/ledger/sqlite/sqlite.ts";
import { LIGHTHOUSE_PROGRAM, TOKEN_PROGRAM } from "../../src/mechanism/solana/programs.ts";
import { Keypair } from "../../src/mechanism/solana/signing.ts";
import { createLogger } from "../../src/telemetry/logger.ts";
import { Metrics } from "../../src/telemetry/metrics.ts";
import type { FacilitatorRequest, SettleResponse } from "../../src/x402/x402.ts";
import { MovableTime } from "./movable-time.ts";
import {
  buildTransaction,
  call,
  integer,
  layOut,
  memo,
  signer,
  sourceOf,
  transfer,
  unitLimit,
  unitPrice,
  walletGuard,
  writable,
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
/** Transfers that one transaction of an attacker's has room for. */
const MOVES = 20;
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

  /** So many prices more. */
  async fund({ address: owner }: Keypair, prices = 1n): Promise<void> {
    await this.node.fundToken({ mint: devnet().asset.address, owner, amount: prices * PRICE });
  }

  tokensOf(payer: Keypair): Promise<bigint> {
    return this.node.tokenBalanceOf(payer.address, devnet().asset.address);
  }

  /** Whoever empties many accounts with one transaction: a delegate of all of them, who pays for it himself. */
  async mover(payers: readonly Keypair[]): Promise<Keypair> {
    const mover = await this.payer();
    for (const payer of payers) {
      // Approve.
      const data = [4, ...integer(2n ** 63n, 8)];
      const accounts = [writable(this.#sourceOf(payer)), mover.address, signer(payer.address)];
      await this.#send([call(TOKEN_PROGRAM, data, accounts)], [mover, payer]);
    }
    return mover;
  }

  /**
   * Every payer presents so many payments at once, and their tokens are gone before the block that holds them;
   * then they are there again.
   */
  async moveFirst(
    payers: readonly Keypair[],
    { mover, each, bid }: { mover: Keypair; each: number; bid: "high" | "low" },
  ): Promise<readonly SettleResponse[]> {
    const { node } = this;
    const requests = payers.flatMap((payer) =>
      Array.from({ length: each }, () => this.#plain(payer, bid)),
    );
    node.resetCalls();
    const late = node.inject({ method: "simulateTransaction", hold: true, at: "answer" });
    let settled = 0;
    const settling = requests.map((request) =>
      onTheWire(this.#facilitator)
        .settle(request, { signal: never })
        .finally(() => {
          settled += 1;
        }),
    );
    const isOver = (): boolean => settled === requests.length;
    // Whatever has to be simulated is found good, and the attackers' bid is the higher one.
    while (!isOver() && node.count("simulateTransaction") + settled < requests.length) {
      await setImmediate();
    }
    const amount = PRICE * BigInt(each);
    await this.#move(mover, payers, { amount, isBack: false });
    late.lift();
    while (!isOver()) {
      await setImmediate();
      if (node.queued > 0) node.tick(2);
    }
    await this.#move(mover, payers, { amount, isBack: true });
    return Promise.all(settling);
  }

  async #move(
    mover: Keypair,
    payers: readonly Keypair[],
    { amount, isBack }: { amount: bigint; isBack: boolean },
  ): Promise<void> {
    const pot = this.#sourceOf(mover);
    const moves = payers.map((payer) => {
      const [from, to] = [this.#sourceOf(payer), pot];
      const accounts = isBack ? [to, from] : [from, to];
      // Transfer.
      const data = [3, ...integer(amount, 8)];
      return call(TOKEN_PROGRAM, data, [...accounts.map(writable), signer(mover.address)]);
    });
    for (let at = 0; at < moves.length; at += MOVES) {
      await this.#send(moves.slice(at, at + MOVES), [mover]);
    }
  }

  /** A transaction of the attackers', who pay for it; in a block of its own. */
  async #send(instructions: Plan["instructions"], signers: readonly Keypair[]): Promise<void> {
    const [first] = signers;
    const feePayer = first?.address ?? "";
    const plan = { instructions, feePayer, signers, blockhash: this.#blockhash };
    const params = [buildTransaction(plan), { encoding: "base64", skipPreflight: true }];
    const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "sendTransaction", params });
    const headers = { "Content-Type": "application/json" };
    const answer = await fetch(this.node.rpcUrl, { method: "POST", headers, body });
    const { error } = Object(await answer.json());
    if (error !== undefined) throw new Error(JSON.stringify(error));
    this.node.tick(1);
  }

  #sourceOf(payer: Keypair): string {
    return sourceOf(this.#payment(payer));
  }

  /** Without assertions. */
  #plain(payer: Keypair, bid: "high" | "low"): FacilitatorRequest {
    const payment = this.#payment(payer);
    const price = bid === "high" ? HIGHEST_PRICE : LOWEST_PRICE;
    const budget = [unitLimit(UNITS), unitPrice(price)];
    const instructions = [...budget, transfer(payment), memo(this.#note())];
    const { feePayer } = payment;
    const plan = { instructions, feePayer, signers: [payer], blockhash: this.#blockhash };
    return requestFor(plan, payment);
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
    const settling = onTheWire(this.#facilitator)
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
