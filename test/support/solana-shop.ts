/**
 * A shop that is paid on Solana: the gateway as a process of its own, before a backend that counts and a
 * local node that says it is `solana-devnet` or `solana`. It can be paid on an EVM chain besides.
 */
import { createServer, type RequestListener } from "node:http";
import { drain, listen } from "../../src/gateway/listener/listener.ts";
import type { Chain } from "./chain.ts";
import { freshAccount } from "./payer.ts";
import { Site } from "./serve.ts";
import type { Shopper } from "./solana-clients.ts";
import { freshSolanaKey, type SolanaKey } from "./solana-key.ts";
import { USDC_DEVNET, USDC_MAINNET } from "./solana/set-up.ts";
import { GENESIS_HASHES, startSolanaNode, type SolanaNode } from "./solana/solana-node.ts";

/** What a shopper owns of a token, atomic units. */
export const PURSE = 5_000_000n;
/** What everything costs that is paid in USDC: one US cent. */
export const PRICE = 10_000n;
/** What `/booked` wants to find in transactions of version 2. */
export const MEMO = "order book 7";
/** What `/bonds` costs, atomic units of a token that is not USDC. */
export const BOND_PRICE = 77n;
/** A blockhash counts for 150 of them: longer than one is told to buyers. */
export const SLOT_MS = 200;

const BOND_DECIMALS = 9;
const FEE_PAYER_LAMPORTS = 1_000_000_000n;
const USDC = { "solana-devnet": USDC_DEVNET, solana: USDC_MAINNET } as const;

export interface ShopOptions {
  readonly network: Shopper["network"];
  /** Sells on this chain, too. */
  readonly chain?: Chain;
  /** Default: one process does everything. */
  readonly workers?: number;
}

export interface SolanaShop {
  readonly url: string;
  readonly facilitatorUrl: `http://${string}`;
  readonly node: SolanaNode;
  readonly network: Shopper["network"];
  /** Ours: it pays the network fees. */
  readonly feePayer: SolanaKey;
  /** Who is paid on Solana: somebody who owned the tokens before. */
  readonly payee: string;
  /** Who is paid on the EVM chain. */
  readonly evmPayee: `0x${string}`;
  /** Mint of the network's USDC. */
  readonly usdc: string;
  /** Mint of a token of the Token-2022 program, with the extensions that do no harm. */
  readonly bond: string;
  /** What the backend was asked for, in order. It answers with the URL and how many it was asked for. */
  readonly asked: readonly string[];
  /** Somebody with {@link PURSE} of a token (default: USDC) and without SOL. */
  readonly newShopper: (mint?: string) => Promise<Shopper>;
  [Symbol.asyncDispose](): Promise<void>;
}

export async function openSolanaShop({
  network,
  chain,
  workers = 1,
}: ShopOptions): Promise<SolanaShop> {
  await using closing = new AsyncDisposableStack();
  const genesisHash = GENESIS_HASHES[network];
  const node = closing.use(await startSolanaNode({ slotMs: SLOT_MS, genesisHash }));
  const [feePayer, gasPayer] = [freshSolanaKey(), freshAccount()];
  const payee = freshSolanaKey().address;
  const evmPayee = freshAccount().address;
  const usdc = USDC[network];
  const bond = node.createMint({
    decimals: BOND_DECIMALS,
    program: "token-2022",
    extensions: { transferFee: { basisPoints: 0 }, transferHook: null },
  });
  node.fundSol(feePayer.address, FEE_PAYER_LAMPORTS);
  for (const mint of [usdc, bond]) await node.fundToken({ mint, owner: payee, amount: 1n });
  await chain?.fund(gasPayer.address, 0n, 10n ** 18n);

  const asked: string[] = [];
  const upstreamUrl = await openBackend(asked, closing);
  const site = closing.use(await Site.create());
  const terms = { network, rpcUrl: node.rpcUrl, payee, bond, upstreamUrl, evmPayee, workers };
  const env = { SOLANA_KEY: feePayer.secret, EVM_KEY: gasPayer.privateKey };
  const served = await site.serve(configure(terms, chain), env);
  await served.untilReady();
  const table = served.output().stderr;
  const place = /^\s*facilitator\s+http:\/\/([^/\s]+)\//m.exec(table)?.[1];
  if (place === undefined) throw new Error(`no facilitator is listed:\n${table}`);

  const newShopper = async (mint: string = usdc): Promise<Shopper> => {
    const key = freshSolanaKey();
    await node.fundToken({ mint, owner: key.address, amount: PURSE });
    return { key, network, rpcUrl: node.rpcUrl };
  };
  const owned = closing.move();
  return {
    url: served.url,
    facilitatorUrl: `http://${place}`,
    node,
    network,
    feePayer,
    payee,
    evmPayee,
    usdc,
    bond,
    asked,
    newShopper,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

interface Terms extends Pick<SolanaShop, "network" | "payee" | "evmPayee" | "bond"> {
  readonly rpcUrl: string;
  readonly upstreamUrl: string;
  readonly workers: number;
}

/** Solana stands first wherever it can: what buyers are told has an order of its own. */
function configure(terms: Terms, chain: Chain | undefined): string {
  const { network, rpcUrl, payee, evmPayee, bond, upstreamUrl, workers } = terms;
  const accepted: string[] = [network];
  const payees = [`solana: ${payee}`];
  const settled = [`${network}: { rpc: ["${rpcUrl}"], signers: [env:SOLANA_KEY] }`];
  if (chain !== undefined) {
    const { name } = chain.network;
    accepted.push(name);
    payees.push(`evm: "${evmPayee}"`);
    settled.push(`${name}: { rpc: ["${chain.rpcUrl}"], signers: [env:EVM_KEY] }`);
  }
  return `
upstream: ${upstreamUrl}
payTo: { ${payees.join(", ")} }
accept: [${accepted.join(", ")}]
assets:
  BOND: { ${network}: { address: ${bond}, decimals: ${BOND_DECIMALS} } }
facilitator:
  listen: 127.0.0.1:0
  embedded:
    networks:
      ${settled.join("\n      ")}
unmatched: deny
logging: { level: warn }
workers: ${workers}
mcp: true
routes:
  GET /weather: { price: $0.01, description: Current weather }
  GET /booked: { price: $0.01, description: In the books, memo: ${MEMO} }
  GET /reports/:id: { price: $0.01, description: A report }
  GET /bonds: { accept: [{ network: ${network}, asset: BOND, amount: "${BOND_PRICE}" }] }
`;
}

async function openBackend(asked: string[], closing: AsyncDisposableStack): Promise<string> {
  const repeat: RequestListener = ({ url = "" }, response) => {
    asked.push(url);
    response.writeHead(200, { "Content-Type": "application/json" });
    response.end(JSON.stringify({ url, served: asked.length }));
  };
  const backend = createServer(repeat);
  const { port } = await listen(backend, { host: "127.0.0.1", port: 0 });
  closing.defer(() => drain(backend, AbortSignal.timeout(1_000)));
  return `http://127.0.0.1:${port}`;
}
