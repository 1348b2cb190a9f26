/** `assets` and `accept`: the tokens that the file knows, and those in which routes are paid. */
import type { AtomicAmount } from "../../x402/amount.ts";
import { networkOf, type Asset, type NetworkName } from "../../x402/network.ts";
import { readAddress } from "../listener/addresses.ts";
import type { Context } from "../reading/context.ts";
import type { AcceptEntry, ConfigDocument } from "../reading/document.ts";
import type { Fault } from "../reading/problem.ts";
import { fault, readNetwork } from "../reading/reading.ts";
import { didYouMean } from "../reading/suggestion.ts";
import type { Path, Tree } from "../reading/tree.ts";

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

  constructor(context: Context) {
    this.#tree = context.tree;
    const written = context.tree.find(["assets"]);
    for (const symbol of written?.kind === "mapping" ? written.entries.keys() : []) {
      this.#configured.set(symbol, configuredAssets(symbol, context));
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

type WrittenAssets = NonNullable<ConfigDocument["assets"]>[string];

function configuredAssets(symbol: string, context: Context): Map<NetworkName, Asset> {
  const assets = new Map<NetworkName, Asset>();
  const { problems } = context;
  if (!/^[A-Za-z0-9._-]{1,32}$/.test(symbol)) {
    const message = "a symbol has up to 32 letters, digits, dots, dashes and underscores";
    problems.errorAtKey(["assets", symbol], fault("bad-value", message));
  }
  for (const network of context.networkKeys(["assets", symbol])) {
    const path = ["assets", symbol, network];
    const token = context.document.assets?.[symbol]?.[network];
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
  readonly token: WrittenAssets[string];
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

/** Looks up the tokens of one `accept` list, in its order. */
export function acceptedTokens(
  entries: readonly AcceptEntry[],
  path: Path,
  assets: Assets,
  { problems }: Context,
): readonly AcceptedToken[] {
  const tokens: AcceptedToken[] = [];
  for (const [index, entry] of entries.entries()) {
    const here = [...path, index];
    const written = typeof entry === "string" ? { network: entry } : entry;
    const { network, asset: symbol = dollarAsset(network).symbol, amount = null } = written;
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
      problems.error(here, fault("duplicate-entry", "the same token is accepted twice"));
    } else if (excess !== undefined) {
      problems.error([...here, "amount"], excess);
    } else {
      tokens.push({ network, asset, amount, path: here });
    }
  }
  return tokens;
}
