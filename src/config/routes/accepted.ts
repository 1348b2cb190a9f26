/** `payTo`, `accept` and `assets`: who is paid, in which tokens, and the tokens that the file knows. */
import { z } from "zod";
import type { AtomicAmount } from "../../x402/amount.ts";
import { networkOf, type Asset, type NetworkName } from "../../x402/network.ts";
import { ok, type Result } from "../../x402/result.ts";
import { readAddress, readEvmAddress, readPayee, readSolanaPayee } from "../listener/addresses.ts";
import type { Context } from "../reading/context.ts";
import { ADDRESS, AMOUNT, EVM_ADDRESS, NETWORK, SOLANA_ADDRESS } from "../reading/forms.ts";
import type { Fault } from "../reading/problem.ts";
import { fault, ONE_OF_TWO, readAmount, readNetwork } from "../reading/reading.ts";
import {
  described,
  flag,
  map,
  matching,
  named,
  optional,
  plainText,
  reader,
  text,
  whole,
} from "../reading/shapes.ts";
import { didYouMean } from "../reading/suggestion.ts";
import type { Path, Tree } from "../reading/tree.ts";

const SYMBOL = /^[A-Za-z0-9._-]{1,32}$/;
const SYMBOL_FORM = "a symbol has up to 32 letters, digits, dots, dashes and underscores";

/** Who is paid, by the family of networks; one address alone is for its own family. */
export const payees = z.union(
  [
    reader(
      z.string(),
      (written): Result<{ evm?: string; solana?: string }, Fault> => {
        const payee = readPayee(written);
        return payee.ok ? ok({ [payee.value.kind]: payee.value.text }) : payee;
      },
      ADDRESS,
    ),
    map({
      evm: optional(
        text(readEvmAddress, EVM_ADDRESS),
        "Who is paid on EVM networks. Keep the mixed case: it is a checksum that finds typing errors.",
      ),
      solana: optional(
        text(readSolanaPayee, SOLANA_ADDRESS),
        "Who is paid on Solana: the address of a wallet, not of its token account.",
      ),
    }),
  ],
  "must be an address or { evm: 0x…, solana: … }",
);

const network = text(readNetwork, NETWORK);

export const acceptEntry = z.union(
  [
    network,
    map({
      network: described(network, "Network on which this is paid."),
      asset: optional(
        plainText,
        "Symbol of the token: USDC, or one of `assets`. Without it: the network's USDC.",
      ),
      amount: optional(
        text(readAmount, AMOUNT),
        "Amount in atomic units, in quotes, in place of the route's price.",
      ),
      testnet: optional(
        flag,
        "Says that a test network is meant where real ones are accepted, too: its money costs nothing and buys the same.",
        false,
      ),
    }),
  ],
  "must be a network or { network, asset, amount, testnet }",
);

/** Which of it belongs to which family of networks is decided in `accepted.ts`. */
const token = map({
  address: described(
    text(readAddress, ADDRESS),
    "Contract of the token on an EVM network, which implements EIP-3009; on Solana its mint.",
  ),
  decimals: described(whole(0, 36), "Digits behind the point of one whole token: USDC has 6."),
  eip712: optional(
    map({
      name: described(
        plainText.min(1, "must not be empty"),
        "`name` of the token's EIP-712 domain, exactly as its contract has it.",
      ),
      version: described(plainText, "`version` of the token's EIP-712 domain, in quotes."),
    }),
    "The EIP-712 domain that buyers sign with. Required on EVM networks, meaningless on Solana.",
  ),
});

/** Symbols, and under each what it is on which network. */
export const assets = named(named(token, NETWORK), matching(SYMBOL, SYMBOL_FORM));

export type Payees = z.output<typeof payees>;
export type AcceptEntry = z.output<typeof acceptEntry>;
type WrittenAssets = z.output<typeof assets>;

/** An entry of `accept` with its token looked up. */
export interface AcceptedToken {
  readonly network: NetworkName;
  readonly asset: Asset;
  /** Its own amount, whatever the price of the route; null: the route's price. */
  readonly amount: AtomicAmount | null;
  readonly path: Path;
}

/** The most that a token account on Solana can hold: its amounts have 64 bits. */
const MAX_UINT64 = 2n ** 64n - 1n;

/** The stablecoin in which dollars are paid on a network. */
export function dollarAsset(name: NetworkName): Asset {
  const network = networkOf(name);
  if (network.kind === "solana") return network.asset;
  const { symbol, address, decimals, eip712 } = network.asset;
  return { symbol, address, decimals, eip712 };
}

/** The fault of an amount that no token of a network can carry. */
export function checkAmount(network: NetworkName, amount: AtomicAmount): Fault | undefined {
  if (networkOf(network).kind === "evm" || amount <= MAX_UINT64) return undefined;
  const message = `${amount} atomic units are more than a token on ${network} can carry`;
  return fault("bad-value", message, `amounts on Solana are below 2^64: at most ${MAX_UINT64}`);
}

/** The built-in tokens and those of `assets`, by symbol and network. */
export class Assets {
  readonly #configured = new Map<string, Map<NetworkName, Asset>>();
  readonly #tree: Tree;

  constructor(assets: WrittenAssets, context: Context) {
    this.#tree = context.tree;
    for (const symbol of context.tree.keys(["assets"])) {
      this.#configured.set(symbol, configuredAssets(symbol, assets[symbol] ?? {}, context));
    }
  }

  /** Whether a token of that name may be meant of which nothing could be made: it was said what is wrong. */
  wasRefused(symbol: string, network: NetworkName): boolean {
    const written = this.#tree.find(["assets", symbol]);
    if (written?.kind !== "mapping") return this.#tree.has(["assets", symbol]);
    return [...written.entries.keys()].some((name) => name === network || !readNetwork(name).ok);
  }

  find(symbol: string, network: NetworkName): Asset | undefined {
    const builtIn = dollarAsset(network);
    return builtIn.symbol === symbol ? builtIn : this.#configured.get(symbol)?.get(network);
  }

  /** By contract, whatever its letter case, or by mint, which has only one spelling. */
  findByAddress(written: string, network: NetworkName): Asset | undefined {
    const address = readAddress(written);
    if (!address.ok || networkOf(network).kind !== address.value.kind) return undefined;
    return this.symbols(network)
      .map((symbol) => this.find(symbol, network))
      .find((asset) => asset?.address === address.value.text);
  }

  symbols(network: NetworkName): readonly string[] {
    const configured = [...this.#configured].filter(([, networks]) => networks.has(network));
    return [dollarAsset(network).symbol, ...configured.map(([symbol]) => symbol)];
  }
}

function configuredAssets(
  symbol: string,
  tokens: WrittenAssets[string],
  context: Context,
): Map<NetworkName, Asset> {
  const assets = new Map<NetworkName, Asset>();
  const { problems } = context;
  if (!SYMBOL.test(symbol)) {
    problems.errorAtKey(["assets", symbol], fault("bad-value", SYMBOL_FORM));
  }
  for (const network of context.networkKeys(["assets", symbol])) {
    const path = ["assets", symbol, network];
    const token = tokens[network];
    if (dollarAsset(network).symbol === symbol) {
      const message = `${symbol} on ${network} is built in and cannot be defined again`;
      problems.errorAtKey(path, fault("built-in-asset", message, "give the token another symbol"));
    } else if (token !== undefined) {
      const asset = configuredAsset({ symbol, network, token, path }, context);
      if (asset !== undefined) assets.set(network, asset);
    }
  }
  return assets;
}

interface WrittenToken {
  readonly symbol: string;
  readonly network: NetworkName;
  readonly token: WrittenAssets[string][string];
  readonly path: Path;
}

/** Undefined where a part is missing, or belongs to the other family of networks. */
function configuredAsset(written: WrittenToken, { problems, tree }: Context): Asset | undefined {
  const { symbol, network, token, path } = written;
  const { decimals, eip712 } = token;
  const { kind, text: address } = token.address;
  const domain = [...path, "eip712"];
  if (networkOf(network).kind === "solana") {
    if (kind !== "solana") {
      const message = `must be the mint of the token on ${network}: base58 of 32 bytes`;
      problems.error([...path, "address"], fault("bad-value", message));
    }
    if (tree.has(domain)) {
      const hint = "remove it: how a token is transferred is read from the chain at the start";
      problems.errorAtKey(domain, fault("unused-key", "has no meaning on Solana", hint));
    }
    return kind === "solana" ? { symbol, address, decimals, tokenProgram: null } : undefined;
  }
  if (kind !== "evm") {
    const message = `must be the contract of the token on ${network}: 0x and 40 hex digits`;
    problems.error([...path, "address"], fault("bad-value", message));
  }
  if (!tree.has(domain)) problems.errorAtKey(domain, fault("missing-key", "is required"));
  return kind === "evm" && eip712 !== undefined ? { symbol, address, decimals, eip712 } : undefined;
}

/** Money of a test network is free: beside real networks it has to be said that it buys the same. */
function checkTestMoney(
  { network, testnet }: Exclude<AcceptEntry, string>,
  real: NetworkName | undefined,
  entry: Path,
  problems: Context["problems"],
): void {
  const isTest = networkOf(network).testnet;
  if (testnet && !isTest) {
    const message = `is true, but ${network} is no test network`;
    problems.error([...entry, "testnet"], fault("bad-value", message, "leave it out"));
  }
  if (!isTest || testnet || real === undefined) return;
  const message = `${network} is a test network beside ${real}: who has test money, which costs nothing, buys for it`;
  const hint = `remove it, or say that it is meant: { network: ${network}, testnet: true }`;
  problems.error(entry, fault("test-money", message, hint));
}

/** Looks up the tokens of one `accept` list, in its order. */
export function acceptedTokens(
  entries: readonly AcceptEntry[],
  path: Path,
  assets: Assets,
  { problems }: Context,
): readonly AcceptedToken[] {
  const tokens: AcceptedToken[] = [];
  const real = entries
    .map((entry) => (typeof entry === "string" ? entry : entry.network))
    .find((network) => !networkOf(network).testnet);
  for (const [index, entry] of entries.entries()) {
    const here = [...path, index];
    const written: Exclude<AcceptEntry, string> =
      typeof entry === "string" ? { network: entry, testnet: false } : entry;
    const { network, asset: symbol = dollarAsset(network).symbol, amount = null } = written;
    checkTestMoney(written, real, here, problems);
    const asset = assets.find(symbol, network);
    const excess = amount === null ? undefined : checkAmount(network, amount);
    if (asset === undefined && assets.wasRefused(symbol, network)) continue;
    if (asset === undefined) {
      const hint = didYouMean(symbol, assets.symbols(network)) ?? `define it under assets`;
      const message = `no asset of this name is known on ${network}`;
      problems.error([...here, "asset"], fault("unknown-asset", message, hint));
    } else if (
      tokens.some((each) => each.network === network && each.asset.address === asset.address)
    ) {
      problems.error(
        here,
        fault("duplicate-entry", "the same token is accepted twice", ONE_OF_TWO),
      );
    } else if (excess !== undefined) {
      problems.error([...here, "amount"], excess);
    } else {
      tokens.push({ network, asset, amount, path: here });
    }
  }
  return tokens;
}
