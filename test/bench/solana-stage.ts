/**
 * The stage of the Solana benches: a node in a process of its own, a facilitator's key, a seller, and as many
 * buyers as there are payments at a time. Payments are laid out as the official client `x402` 1.2.0 does
 * (limit, price, transfer), which every contender accepts; the price differs, so that no two are alike.
 */
import { generateKeyPairSync } from "node:crypto";
import { fileURLToPath } from "node:url";
import { USDC_DEVNET } from "../support/solana/set-up.ts";
import { buildTransaction, transfer, unitLimit, unitPrice } from "../support/solana-messages.ts";
import { decodeBase58, encodeBase58 } from "../../src/x402/solana-address.ts";
import { TOKEN_PROGRAM } from "../../src/mechanism/solana/programs.ts";
import { Keypair } from "../../src/mechanism/solana/signing.ts";
import { startCoinslot } from "./contenders/coinslot.ts";
import { startCommand, startProgram, type Running } from "./process.ts";

/** Packages whose versions matter; `x402` brings an older `@solana/kit` of its own. */
export const PEERS = [
  "x402",
  "x402/node_modules/@solana/kit",
  "@x402/svm",
  "@solana/kit",
  "express",
  "litesvm",
] as const;

const NETWORK = "solana-devnet";
/** What the main network takes for a slot, milliseconds. */
export const SLOT_MS = 400;

/** One US cent. */
const AMOUNT = 10_000n;
const USDC_DECIMALS = 6;
/** What the client's own simulation finds for such a transfer, rounded up. */
const COMPUTE_UNITS = 6_500;
const BUYER_TOKENS = "1000000000";
const FEE_PAYER_LAMPORTS = "1000000000000";
const MAX_TIMEOUT_SECONDS = 60;

export interface SolanaNode extends Running {
  /** @throws {Error} when the node refuses */
  rpc(method: string, params?: readonly unknown[]): Promise<unknown>;
}

/** The local node; its slots take {@link SLOT_MS}, and a block is confirmed with the next one. */
export async function startNode(): Promise<SolanaNode> {
  const program = new URL("../support/solana/solana-node-process.ts", import.meta.url);
  const running = await startCommand({
    command: process.execPath,
    args: [fileURLToPath(program), "--network", NETWORK, "--slot-ms", String(SLOT_MS)],
    serves: /"rpcUrl":"(http:[^"]+)"/,
  });
  let id = 0;
  const rpc = async (method: string, params: readonly unknown[] = []): Promise<unknown> => {
    id += 1;
    const response = await fetch(running.url, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ jsonrpc: "2.0", id, method, params }),
    });
    const answer = Object(await response.json());
    if (answer.error !== undefined) throw new Error(`${method}: ${JSON.stringify(answer.error)}`);
    return answer.result;
  };
  return { ...running, rpc };
}

export interface Key {
  readonly address: string;
  /** Base58 of the 64 bytes of seed and public key, as wallets export it. */
  readonly secret: string;
}

export function freshKey(): Key {
  const { d = "", x = "" } = generateKeyPairSync("ed25519").privateKey.export({ format: "jwk" });
  const publicKey = Buffer.from(x, "base64url");
  const secret = encodeBase58(Buffer.concat([Buffer.from(d, "base64url"), publicKey]));
  return { address: encodeBase58(publicKey), secret };
}

export class SolanaStage {
  readonly node: SolanaNode;
  readonly feePayer: Key;
  readonly payTo: string;
  readonly #buyers: readonly Keypair[];
  #signed = 0;

  private constructor(node: SolanaNode, feePayer: Key, buyers: readonly Keypair[]) {
    this.node = node;
    this.feePayer = feePayer;
    this.payTo = freshKey().address;
    this.#buyers = buyers;
  }

  /** Everybody has what a payment needs; the seller has been paid before. */
  static async open(node: SolanaNode, buyerCount: number): Promise<SolanaStage> {
    const buyers = Array.from({ length: buyerCount }, freshKeypair);
    const stage = new SolanaStage(node, freshKey(), buyers);
    await node.rpc("svm_fundSol", [stage.feePayer.address, FEE_PAYER_LAMPORTS]);
    await node.rpc("svm_fundToken", [USDC_DEVNET, stage.payTo, "1"]);
    for (const { address } of buyers) {
      await node.rpc("svm_fundToken", [USDC_DEVNET, address, BUYER_TOKENS]);
    }
    return stage;
  }

  /** Bodies for `/verify` and `/settle`, of the buyers in turn. They are good for less than 150 slots. */
  async signPayments(count: number): Promise<string[]> {
    const latest = await this.node.rpc("getLatestBlockhash", [{ commitment: "confirmed" }]);
    const blockhash = String(Object(latest).value.blockhash);
    return Array.from({ length: count }, (_, index) => {
      const buyer = this.#buyers[index % this.#buyers.length];
      if (buyer === undefined) throw new Error("the stage has no buyers");
      return this.#body(buyer, blockhash);
    });
  }

  /** How many payments the seller has received in all. */
  async countPaid(): Promise<number> {
    const balance = await this.node.rpc("svm_tokenBalanceOf", [this.payTo, USDC_DEVNET]);
    return Math.floor(Number(balance) / Number(AMOUNT));
  }

  #body(payer: Keypair, blockhash: string): string {
    this.#signed += 1;
    const feePayer = this.feePayer.address;
    const payment = {
      feePayer,
      payer,
      payTo: this.payTo,
      asset: USDC_DEVNET,
      decimals: USDC_DECIMALS,
      tokenProgram: TOKEN_PROGRAM,
      amount: AMOUNT,
    };
    const transaction = buildTransaction({
      feePayer,
      blockhash,
      signers: [payer],
      instructions: [unitLimit(COMPUTE_UNITS), unitPrice(this.#signed), transfer(payment)],
    });
    const scheme = { scheme: "exact", network: NETWORK };
    return JSON.stringify({
      x402Version: 1,
      paymentPayload: { x402Version: 1, ...scheme, payload: { transaction } },
      paymentRequirements: {
        ...scheme,
        maxAmountRequired: String(AMOUNT),
        asset: USDC_DEVNET,
        payTo: this.payTo,
        resource: "https://shop.example/thing",
        description: "",
        mimeType: "application/json",
        maxTimeoutSeconds: MAX_TIMEOUT_SECONDS,
        extra: { feePayer },
      },
    });
  }
}

export interface SolanaContender {
  readonly name: string;
  readonly server: Running;
}

/** Ours. `store`: where its ledger is. */
export async function startFacilitator(
  folder: string,
  rpcUrl: string,
  feePayer: Key,
  store: string,
): Promise<SolanaContender> {
  const config = `
facilitator:
  listen: 127.0.0.1:0
  embedded:
    networks:
      ${NETWORK}: { rpc: ["${rpcUrl}"], signers: [env:SIGNER] }
admin: 127.0.0.1:0
store: "${store}"
`;
  const env = { SIGNER: feePayer.secret };
  return { name: "coinslot", server: await startCoinslot(folder, config, "facilitator", { env }) };
}

/** All of them with the same key and the same node. */
export async function startContenders(
  folder: string,
  rpcUrl: string,
  feePayer: Key,
): Promise<SolanaContender[]> {
  const store = `sqlite:${folder}/ledger-${new URL(rpcUrl).port}.db`;
  const program = (file: string): Promise<Running> =>
    startProgram(new URL(`./contenders/${file}`, import.meta.url), [rpcUrl, feePayer.secret]);
  return [
    await startFacilitator(folder, rpcUrl, feePayer, store),
    { name: "x402", server: await program("solana-x402.ts") },
    { name: "@x402/svm (v1)", server: await program("solana-svm.ts") },
  ];
}

function freshKeypair(): Keypair {
  const seed = decodeBase58(freshKey().secret, 2 * SEED_BYTES);
  if (seed === undefined) throw new Error("a fresh key has 64 bytes");
  return new Keypair(seed);
}

const SEED_BYTES = 32;
