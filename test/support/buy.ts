/**
 * `BUYER_KEY=0x… npm run -s buy -- URL [JSON body]`: one purchase by the official client. On Solana it is
 * `SOLANA_BUYER_KEY=… SOLANA_RPC=http://… npm run -s buy -- URL`.
 */
import type { Hex } from "viem";
import { decodeBase58 } from "../../src/x402/solana-address.ts";
import { purchase, type Purse } from "./purchase.ts";

/** Of a seed and its public key, as wallets export them. */
const KEYPAIR_BYTES = 64;

const USAGE = `usage: BUYER_KEY=0x… npm run -s buy -- URL [JSON body]
       SOLANA_BUYER_KEY=BASE58 [SOLANA_RPC=URL] npm run -s buy -- URL [JSON body]
`;

const [url, body] = process.argv.slice(2);
const purse = readPurse();
if (url === undefined || purse === undefined) {
  process.stderr.write(USAGE);
  process.exit(2);
}
const headers = { "Content-Type": "application/json" };
const bought = await purchase(purse, url, body ? { method: "POST", body, headers } : {});
process.stderr.write(`${bought.status} ${bought.receipt?.transaction ?? "nothing was paid"}\n`);
process.stdout.write(`${bought.body}\n`);

/** Undefined unless exactly one key is there that looks like one. */
function readPurse(): Purse | undefined {
  const { BUYER_KEY: evm, SOLANA_BUYER_KEY: solana, SOLANA_RPC: rpcUrl } = process.env;
  if (solana === undefined) {
    const isKey = evm !== undefined && /^0x[0-9a-fA-F]{64}$/.test(evm);
    return isKey ? { kind: "evm", key: evm as Hex } : undefined;
  }
  if (evm !== undefined || decodeBase58(solana, KEYPAIR_BYTES) === undefined) return undefined;
  return { kind: "solana", key: solana, ...(rpcUrl === undefined ? {} : { rpcUrl }) };
}
