/**
 * What `npm run demo -- --solana` adds: a local Solana node that stands in for devnet, and a purchase by the
 * same official client with a Solana wallet. It loads the Solana runtime, which the demo does without it.
 */
import { formatAmount } from "../../src/x402/amount.ts";
import { show, step } from "./narration.ts";
import { purchase } from "./purchase.ts";
import { freshSolanaKey, type SolanaKey } from "./solana-key.ts";
import { USDC_DEVNET } from "./solana/set-up.ts";
import { startSolanaNode, type SolanaNode } from "./solana/solana-node.ts";

const USDC_DECIMALS = 6;
const SOL_DECIMALS = 9;
const BUYER_TOKENS = 5_000_000n;
const FEE_PAYER_LAMPORTS = 1_000_000_000n;

export interface SolanaScene {
  readonly node: SolanaNode;
  readonly buyer: SolanaKey;
  readonly seller: SolanaKey;
  readonly feePayer: SolanaKey;
  /** What `config/demo-solana.yaml` asks the environment for, beyond `config/demo.yaml`. */
  readonly env: Readonly<Record<string, string>>;
}

export async function openSolana(closing: AsyncDisposableStack): Promise<SolanaScene> {
  step("A local Solana node that stands in for devnet: the real runtime and Token program");
  const node = closing.use(await startSolanaNode());
  const [buyer, seller, feePayer] = [freshSolanaKey(), freshSolanaKey(), freshSolanaKey()];
  node.fundSol(feePayer.address, FEE_PAYER_LAMPORTS);
  await node.fundToken({ mint: USDC_DEVNET, owner: buyer.address, amount: BUYER_TOKENS });
  // Whoever sells for the first time opens a token account first: a purchase does not.
  await node.fundToken({ mint: USDC_DEVNET, owner: seller.address, amount: 0n });
  show(`a slot takes 400 ms, at ${node.rpcUrl}, USDC is the mint ${USDC_DEVNET}`);
  show(`buyer     ${buyer.address} owns 5 USDC and no SOL`);
  show(`seller    ${seller.address} owns an empty USDC account`);
  show(`fee payer ${feePayer.address} owns 1 SOL: the gateway's own`);
  const env = {
    DEMO_SOLANA_RPC: node.rpcUrl,
    DEMO_SOLANA_PAY_TO: seller.address,
    DEMO_SOLANA_FEE_PAYER_KEY: feePayer.secret,
  };
  return { node, buyer, seller, feePayer, env };
}

/** @throws {Error} when the purchase fails, or when the fee payer paid anything but the network's fee */
export async function buyOnSolana(scene: SolanaScene, url: string): Promise<void> {
  const { node, buyer } = scene;
  step("The same client with a Solana wallet takes the other offer: it signs a whole transaction");
  const before = await balances(scene);
  const started = performance.now();
  const purse = { kind: "solana", key: buyer.secret, rpcUrl: node.rpcUrl } as const;
  const bought = await purchase(purse, url);
  const tookMs = Math.round(performance.now() - started);
  show("X-PAYMENT, decoded:");
  show(bought.payment);

  step(
    `The gateway checked it, signed as its fee payer, sent it: ${bought.status} in ${tookMs} ms`,
  );
  show(bought.body);
  show("X-PAYMENT-RESPONSE, decoded:");
  show(bought.receipt);
  if (bought.status !== 200 || bought.receipt?.success !== true) {
    throw new Error(`the purchase was answered ${bought.status}`);
  }
  const { slot, fee, units, error } = await transactionOf(node, bought.receipt.transaction);
  show(`transaction: slot ${slot}, error ${error}, ${units} compute units, fee ${fee} lamports`);

  step("Balances on Solana: the price has moved, and the fee payer paid the network's fee");
  const after = await balances(scene);
  const { seller, feePayer } = scene;
  const paid = before.feePayer - after.feePayer;
  show(`buyer     ${usdc(before.buyer)} -> ${usdc(after.buyer)} USDC   ${buyer.address}`);
  show(`seller    ${usdc(before.seller)} -> ${usdc(after.seller)} USDC   ${seller.address}`);
  show(`fee payer ${sol(before.feePayer)} -> ${sol(after.feePayer)} SOL   ${feePayer.address}`);
  show(`          paid ${paid} lamports, the network's fee and no more; the buyer paid no SOL`);
  if (paid !== fee) throw new Error(`the fee payer paid ${paid} lamports, the fee was ${fee}`);
}

const usdc = (atomic: bigint): string => formatAmount(atomic, USDC_DECIMALS);
const sol = (lamports: bigint): string => formatAmount(lamports, SOL_DECIMALS);

async function balances({ node, buyer, seller, feePayer }: SolanaScene) {
  return {
    buyer: await node.tokenBalanceOf(buyer.address, USDC_DEVNET),
    seller: await node.tokenBalanceOf(seller.address, USDC_DEVNET),
    feePayer: node.lamportsOf(feePayer.address),
  };
}

/** What an explorer would show. */
async function transactionOf(node: SolanaNode, signature: string) {
  const config = { commitment: "confirmed", maxSupportedTransactionVersion: 0 };
  const params = [signature, config];
  const response = await fetch(node.rpcUrl, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "getTransaction", params }),
  });
  const { slot, meta } = Object(Object(await response.json()).result);
  const { fee, err: error, computeUnitsConsumed: units } = Object(meta);
  return {
    slot: Number(slot),
    fee: BigInt(fee),
    error: JSON.stringify(error),
    units: Number(units),
  };
}
