/**
 * A shop that is paid on a local Solana: node, funded accounts, a backend that counts, and what a wallet makes
 * of a 402. Accounts are those of `testKey`: 1 pays network fees, 2 buys, 3 is paid.
 */
import { createServer, type Server } from "node:http";
import { drain, listen } from "../../src/gateway/listener/listener.ts";
import { TOKEN_PROGRAM } from "../../src/mechanism/solana/programs.ts";
import { encodeBase58 } from "../../src/x402/solana-address.ts";
import type { PaymentRequirements } from "../../src/x402/x402.ts";
import {
  buildTransaction,
  memo,
  testKey,
  transfer,
  unitLimit,
  unitPrice,
  type Payment,
} from "./solana-messages.ts";
import { secretOf } from "./solana-requests.ts";
import { USDC_DEVNET } from "./solana/set-up.ts";
import { startSolanaNode, type SolanaNode, type SolanaNodeOptions } from "./solana/solana-node.ts";

export const [FEE_PAYER, BUYER, PAYEE] = [testKey(1), testKey(2), testKey(3)];
/** What the buyer owns, and what `GET /weather` costs, atomic units. */
const PURSE = 1_000_000n;
export const PRICE = 10_000n;
const ROUTES = `  GET /weather: { price: $0.01, description: Weather }
  GET /tides: { price: $0.01, description: Tides }
`;
/** Compute units that a payment asks for, and what it bids for them: 60 lamports in all. */
const UNITS = 60_000;
const UNIT_PRICE = 1_000;
/** What a settlement costs the fee payer: two signatures and the bid. */
const NETWORK_FEE = 10_060n;
/** What the fee payer owns, lamports. */
const FEE_PURSE = 1_000_000_000n;

/** `signers: [env:SOLANA_KEY]`. */
export const SOLANA_ENV = { SOLANA_KEY: encodeBase58(Buffer.from(secretOf(1), "hex")) };

/** What was asked of a payment, and what came of it. */
export interface SolanaAnswer {
  readonly status: number;
  readonly text: string;
  readonly headers: Headers;
  /** The decoded receipt; undefined where none was sent. */
  readonly receipt: Record<string, unknown> | undefined;
}

export class SolanaStage {
  readonly node: SolanaNode;
  readonly upstreamUrl: string;
  readonly #backend: Server;
  #served = 0;
  #payments = 0;

  private constructor(node: SolanaNode, backend: Server, port: number) {
    this.node = node;
    this.#backend = backend;
    this.upstreamUrl = `http://127.0.0.1:${port}`;
    backend.on("request", (_, response) => {
      this.#served += 1;
      response.end("sunny");
    });
  }

  static async open(options: SolanaNodeOptions = {}): Promise<SolanaStage> {
    const node = await startSolanaNode({ slotMs: 40, ...options });
    node.fundSol(FEE_PAYER.address, FEE_PURSE);
    await node.fundToken({ mint: USDC_DEVNET, owner: BUYER.address, amount: PURSE });
    await node.fundToken({ mint: USDC_DEVNET, owner: PAYEE.address, amount: 0n });
    const backend = createServer();
    const { port } = await listen(backend, { host: "127.0.0.1", port: 0 });
    return new SolanaStage(node, backend, port);
  }

  /** How often the backend was asked. */
  get served(): number {
    return this.#served;
  }

  /** Settles in its own process; YAML, below `facilitator:`. */
  get embedded(): string {
    const { rpcUrl } = this.node;
    return `
  embedded:
    networks:
      solana-devnet: { rpc: ["${rpcUrl}"], signers: [env:SOLANA_KEY] }`;
  }

  /** A gateway's configuration, without listeners and store. `routes`: lines of the map, indented by two. */
  yaml(
    facilitator = this.embedded,
    { upstreamUrl = this.upstreamUrl, routes = ROUTES, more = "" } = {},
  ): string {
    return `upstream: ${upstreamUrl}
payTo: ${PAYEE.address}
accept: [solana-devnet]
facilitator:${facilitator}
unmatched: deny
${more || `logging: { level: ${process.env["COINSLOT_TEST_LOG"] ?? "fatal"} }`}
routes:
${routes}`;
  }

  /** The one offer of a route. */
  async quote(url: string): Promise<PaymentRequirements> {
    const response = await fetch(url);
    const [offer] = Object(await response.json()).accepts ?? [];
    if (response.status !== 402 || offer === undefined) {
      throw new Error(`expected 402 with an offer, not ${response.status}`);
    }
    return offer;
  }

  /** A signed transaction, base64, for a requirement: no other has its memo. */
  pay(asked: PaymentRequirements, blockhash = this.node.blockhash): string {
    const payment = paymentFor(asked);
    this.#payments += 1;
    const note = memo(`payment ${this.#payments}`);
    const instructions = [unitLimit(UNITS), unitPrice(UNIT_PRICE), transfer(payment), note];
    const { feePayer } = payment;
    return buildTransaction({ instructions, feePayer, blockhash, signers: [BUYER] });
  }

  /** Presents a transaction; a connection that breaks rejects. */
  async present(url: string, transaction: string, signal?: AbortSignal): Promise<SolanaAnswer> {
    const headers = { "X-PAYMENT": headerOf(transaction) };
    const response = await fetch(url, { headers, signal: signal ?? null });
    const receipt = response.headers.get("X-PAYMENT-RESPONSE");
    return {
      status: response.status,
      text: await response.text(),
      headers: response.headers,
      receipt: receipt === null ? undefined : JSON.parse(Buffer.from(receipt, "base64").toString()),
    };
  }

  /** What has moved since the beginning: into the payee's account, and out of the other two. */
  async moved(): Promise<{ readonly paid: bigint; readonly spent: bigint; readonly fees: bigint }> {
    const { node } = this;
    return {
      paid: await node.tokenBalanceOf(PAYEE.address, USDC_DEVNET),
      spent: PURSE - (await node.tokenBalanceOf(BUYER.address, USDC_DEVNET)),
      fees: FEE_PURSE - node.lamportsOf(FEE_PAYER.address),
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await drain(this.#backend, AbortSignal.abort());
    await this.node.stop();
  }
}

/** What `count` sales move. */
export function sales(count: bigint) {
  return { paid: PRICE * count, spent: PRICE * count, fees: NETWORK_FEE * count };
}

function headerOf(transaction: string): string {
  const network = "solana-devnet";
  const payment = { x402Version: 1, scheme: "exact", network, payload: { transaction } };
  return Buffer.from(JSON.stringify(payment)).toString("base64");
}

function paymentFor({ extra, payTo, asset, maxAmountRequired }: PaymentRequirements): Payment {
  const feePayer = String(extra?.["feePayer"]);
  const amount = BigInt(maxAmountRequired);
  const [decimals, tokenProgram] = [6, TOKEN_PROGRAM];
  return { feePayer, payer: BUYER, payTo, asset, decimals, tokenProgram, amount };
}
