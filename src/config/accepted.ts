/** `assets` and `accept`: the tokens that the file knows, and those in which routes are paid. */
import type { AtomicAmount } from "../x402/amount.ts";
import { networkOf, type EvmAsset, type NetworkName } from "../x402/network.ts";
import type { Context } from "./context.ts";
import type { AcceptEntry, ConfigDocument } from "./document.ts";
import { fault, readNetwork } from "./reading.ts";
import { didYouMean } from "./suggestion.ts";
import type { Path } from "./tree.ts";

/** An entry of `accept` with its token looked up. */
export interface AcceptedToken {
  readonly network: NetworkName;
  readonly asset: EvmAsset;
  /** Its own amount, whatever the price of the route; null: the route's price. */
  readonly amount: AtomicAmount | null;
  readonly path: Path;
}

/** The stablecoin in which dollars are paid on a network. */
export function dollarAsset(name: NetworkName): EvmAsset {
  const network = networkOf(name);
  if (network.kind !== "evm") throw new Error(`${name} has no EVM asset`);
  const { symbol, address, decimals, eip712 } = network.asset;
  return { symbol, address, decimals, eip712 };
}

/** The built-in tokens and those of `assets`, by symbol and network. */
export class Assets {
  readonly #configured = new Map<string, Map<NetworkName, EvmAsset>>();

  constructor(context: Context) {
    for (const [symbol, networks] of Object.entries(context.document.assets ?? {})) {
      this.#configured.set(symbol, configuredAssets(symbol, networks, context));
    }
  }

  find(symbol: string, network: NetworkName): EvmAsset | undefined {
    const builtIn = dollarAsset(network);
    return builtIn.symbol === symbol ? builtIn : this.#configured.get(symbol)?.get(network);
  }

  symbols(network: NetworkName): readonly string[] {
    const configured = [...this.#configured].filter(([, networks]) => networks.has(network));
    return [dollarAsset(network).symbol, ...configured.map(([symbol]) => symbol)];
  }
}

type WrittenAssets = NonNullable<ConfigDocument["assets"]>[string];

function configuredAssets(
  symbol: string,
  networks: WrittenAssets,
  { problems }: Context,
): Map<NetworkName, EvmAsset> {
  const assets = new Map<NetworkName, EvmAsset>();
  if (!/^[A-Za-z0-9._-]{1,32}$/.test(symbol)) {
    const message = "a symbol has up to 32 letters, digits, dots, dashes and underscores";
    problems.errorAtKey(["assets", symbol], fault("bad-value", message));
  }
  for (const [name, token] of Object.entries(networks)) {
    const path = ["assets", symbol, name];
    const network = readNetwork(name);
    if (!network.ok) {
      problems.errorAtKey(path, network.error);
    } else if (dollarAsset(network.value).symbol === symbol) {
      const message = `${symbol} on ${name} is built in and cannot be defined again`;
      problems.errorAtKey(path, fault("built-in-asset", message, "give the token another symbol"));
    } else {
      assets.set(network.value, { symbol, ...token });
    }
  }
  return assets;
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
    if (asset === undefined) {
      const hint = didYouMean(symbol, assets.symbols(network)) ?? `define it under assets`;
      const message = `no asset of this name is known on ${network}`;
      problems.error([...here, "asset"], fault("unknown-asset", message, hint));
    } else if (
      tokens.some((each) => each.network === network && each.asset.address === asset.address)
    ) {
      problems.error(here, fault("duplicate-entry", "the same token is accepted twice"));
    } else {
      tokens.push({ network, asset, amount, path: here });
    }
  }
  return tokens;
}
