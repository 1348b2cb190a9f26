/** The tokens of the cases: USDC, and what an issuer can make of a mint. All exist on every node. */
import { TOKEN_2022_PROGRAM, TOKEN_PROGRAM } from "../../../src/mechanism/solana/programs.ts";
import { networkOf, type NetworkName, type SolanaAsset } from "../../../src/x402/network.ts";
import { testKey } from "../../support/solana-messages.ts";
import type { MintOptions } from "../../support/solana/set-up.ts";
import type { SolanaNode } from "../../support/solana/solana-node.ts";

export const MINT_NAMES = [
  "USDC",
  "another token of Token",
  "Token-2022",
  "with a transfer fee of zero",
  "with a transfer fee of one basis point",
  "with a hook that is not set",
  "with a hook",
  "whose tokens cannot be transferred",
  "whose new accounts are thawed",
  "whose new accounts are frozen",
  "with an extension that nobody knows",
  "of no decimals",
  "no mint",
] as const;

export type MintName = (typeof MINT_NAMES)[number];

/** Numbers of extensions (`ExtensionType` of Token-2022). */
const DEFAULT_ACCOUNT_STATE = 6;
const UNKNOWN_EXTENSION = 999;
const INITIALIZED = 1;
const FROZEN = 2;

const HOOK_PROGRAM = testKey(60).address;

type Making = Pick<MintOptions, "extensions"> & Partial<MintOptions>;

/** USDC is there by itself, and what is no mint is none. */
const MAKINGS: Readonly<Record<Exclude<MintName, "USDC" | "no mint">, Making>> = {
  "another token of Token": { program: "token" },
  "Token-2022": {},
  "with a transfer fee of zero": { extensions: { transferFee: { basisPoints: 0 } } },
  "with a transfer fee of one basis point": { extensions: { transferFee: { basisPoints: 1 } } },
  "with a hook that is not set": { extensions: { transferHook: null } },
  "with a hook": { extensions: { transferHook: HOOK_PROGRAM } },
  "whose tokens cannot be transferred": { extensions: { nonTransferable: true } },
  "whose new accounts are thawed": extension(DEFAULT_ACCOUNT_STATE, INITIALIZED),
  "whose new accounts are frozen": extension(DEFAULT_ACCOUNT_STATE, FROZEN),
  "with an extension that nobody knows": extension(UNKNOWN_EXTENSION, 0),
  "of no decimals": { program: "token", decimals: 0 },
};

function extension(type: number, value: number): Making {
  return { extensions: { other: [{ type, data: Uint8Array.of(value) }] } };
}

/** Keys from here on are the mints' addresses. */
const FIRST_KEY = 61;
const DECIMALS = 6;

/** The token as a configuration names it. */
export function assetOf(name: MintName, network: NetworkName): SolanaAsset {
  const facts = networkOf(network);
  if (facts.kind !== "solana") throw new Error(`${network} is no Solana network`);
  if (name === "USDC") return facts.asset;
  const making: Making = name === "no mint" ? {} : MAKINGS[name];
  return {
    symbol: "TEST",
    address: testKey(FIRST_KEY + MINT_NAMES.indexOf(name)).address,
    decimals: making.decimals ?? DECIMALS,
    tokenProgram: making.program === "token" ? TOKEN_PROGRAM : TOKEN_2022_PROGRAM,
  };
}

export function createMints(node: SolanaNode, network: NetworkName): void {
  for (const [name, making] of Object.entries(MAKINGS)) {
    const { address } = assetOf(name as MintName, network);
    node.createMint({ decimals: DECIMALS, program: "token-2022", ...making, address });
  }
}
