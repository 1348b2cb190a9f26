/** A Solana wallet for a page: registered as the wallet-standard says, signing for real with a key of this process. */
import { join } from "node:path";
import type { Page } from "playwright-core";
import { rolldown } from "rolldown";
import { Keypair } from "../../src/mechanism/solana/signing.ts";
import { ADDRESS_BYTES, decodeBase58 } from "../../src/x402/solana-address.ts";
import { readSolanaTransaction } from "../../src/x402/solana-transaction.ts";
import type { SolanaKey } from "../support/solana-key.ts";

const SECRET_BYTES = 64;
const SIGNATURE_BYTES = 64;

export interface SolanaWalletOptions {
  readonly key: SolanaKey;
  /** Default: `solana:devnet`. */
  readonly chains?: readonly string[];
  /** The user turns the signature down. */
  readonly declines?: boolean;
  /** What happens while the user looks at it. */
  readonly thinks?: () => void;
}

type Asked =
  | { readonly message: readonly number[] }
  | { readonly chain: string; readonly transaction: number[] };

let bundled: Promise<string> | undefined;

/** Resolves with the transactions that it signed, base64, as they come. */
export async function injectSolanaWallet(
  page: Page,
  { key, chains = ["solana:devnet"], declines = false, thinks }: SolanaWalletOptions,
): Promise<readonly string[]> {
  const keypair = new Keypair(decodeBase58(key.secret, SECRET_BYTES) ?? new Uint8Array());
  const publicKey = [...(decodeBase58(key.address, ADDRESS_BYTES) ?? [])];
  const signed: string[] = [];
  await page.exposeFunction("ask_solana", (asked: Asked) => {
    if ("message" in asked) {
      return { signature: [...keypair.sign(Uint8Array.from(asked.message))] };
    }
    thinks?.();
    if (declines) return { error: "User rejected the request." };
    if (!chains.includes(asked.chain)) return { error: `not on ${asked.chain}` };
    const bytes = Buffer.from(asked.transaction);
    const read = readSolanaTransaction(bytes.toString("base64"));
    if (!read.ok || read.value.payer !== key.address) return { error: "nothing to sign here" };
    const place = read.value.signaturesOffset + SIGNATURE_BYTES;
    bytes.set(keypair.sign(read.value.message), place);
    signed.push(bytes.toString("base64"));
    return { transaction: [...bytes] };
  });
  const given = JSON.stringify({ address: key.address, publicKey, chains });
  const content = `globalThis.solanaWallet = ${given};\n${await (bundled ??= bundle())}`;
  await page.addInitScript({ content });
  return signed;
}

async function bundle(): Promise<string> {
  const input = join(import.meta.dirname, "standard-wallet.ts");
  await using made = await rolldown({ input, platform: "browser", tsconfig: false });
  const { output } = await made.generate({ format: "iife" });
  return output[0].code;
}
