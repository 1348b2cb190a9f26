/** `facilitator.embedded`: the networks that this process settles itself, with which keys, and for whom. */
import { z } from "zod";
import type { AtomicAmount } from "../../x402/amount.ts";
import {
  isNetworkName,
  networkOf,
  type Asset,
  type EvmAsset,
  type Network,
  type NetworkName,
  type SolanaAsset,
} from "../../x402/network.ts";
import { readAddress, readPayee } from "../listener/addresses.ts";
import type { Assets } from "../routes/accepted.ts";
import { NATIVE_PRICE_FORM, readNativePrice } from "../routes/price.ts";
import { commitment, endpointOf, rpc, type AskedChain, type Commitment } from "./chain.ts";
import { findKey, readSigners, signers, type Signer } from "./private-key.ts";
import type { Context } from "../reading/context.ts";
import { ADDRESS, NETWORK } from "../reading/forms.ts";
import type { Fault } from "../reading/problem.ts";
import { fault } from "../reading/reading.ts";
import {
  described,
  listOf,
  map,
  matching,
  named,
  optional,
  plainText,
  reader,
  text,
  whole,
  word,
} from "../reading/shapes.ts";
import { didYouMean } from "../reading/suggestion.ts";
import type { Path } from "../reading/tree.ts";

/** A chain on which this process settles. */
export type EmbeddedNetwork = EvmEmbeddedNetwork | SolanaEmbeddedNetwork;

/** What both kinds of networks have that are settled here. */
interface Settling extends AskedChain {
  /** At least one, all different. */
  readonly signers: readonly Signer[];
  /**
   * Dollars for one whole unit of the network's currency, in 10^-18 dollars: what gas is compared with.
   * Null: not compared.
   */
  readonly nativePriceAttodollars: AtomicAmount | null;
}

export interface EvmEmbeddedNetwork extends Settling {
  readonly kind: "evm";
  /** Blocks on top before a settlement counts as confirmed, at least 1. */
  readonly confirmations: number;
  /** Whether buyers may pay from addresses that have code. */
  readonly smartWallets: "allow" | "deny";
  /** Tokens settled here: the network's own stablecoin first, then our routes' and `allow.assets`. */
  readonly assets: readonly EvmAsset[];
}

export interface SolanaEmbeddedNetwork extends Settling {
  readonly kind: "solana";
  readonly commitment: Commitment;
  /** The highest network fee, all signatures and priority together, that we pay for one settlement. */
  readonly maxFeeLamports: bigint;
  /** Whether buyers' transactions may hold Lighthouse assertions. */
  readonly lighthouse: Lighthouse;
  /** Lamports that payments with assertions may cost us for nothing within an hour. */
  readonly lighthouseLossPerHour: bigint;
  /** Tokens settled here: the network's own stablecoin first, then our routes' and `allow.assets`. */
  readonly assets: readonly SolanaAsset[];
}

/** `assertions`: those that change nothing are allowed; `deny`: none is. */
const LIGHTHOUSE_RULES = ["assertions", "deny"] as const;

export type Lighthouse = (typeof LIGHTHOUSE_RULES)[number];

const MAX_FEE_REASON = ": two signatures alone cost 10000, and a whole SOL is 1000000000";
/** Half of it is for payers who have not paid as yet: that must hold one settlement. */
const LOSS_REASON = ": one failure costs 10000 or more, and a whole SOL is 1000000000";

function dollars(example: string) {
  return reader(
    z.union([z.string(), z.number()], NATIVE_PRICE_FORM),
    readNativePrice,
    matching(/^\$[0-9]+(?:\.[0-9]+)?$/, NATIVE_PRICE_FORM, example),
  );
}

/** Which of it belongs to which family of networks: {@link FOREIGN_KEYS}. */
const embeddedNetwork = map({
  rpc: described(rpc, "RPC endpoints of the chain, tried in this order."),
  signers: described(
    signers,
    "References to the private keys that pay the fees: env:NAME or file:PATH. Several settle side by side.",
  ),
  confirmations: optional(
    whole(1, 1000),
    "EVM networks: blocks that hold a settlement before it counts. Without it: what suits the network.",
  ),
  commitment,
  // Twenty times what two signatures cost: leaves room for the priority fees of a busy network.
  maxFeeLamports: optional(
    whole(10_000, 1_000_000_000, MAX_FEE_REASON),
    "Solana: the most that one settlement may cost us in lamports, priority fee and all.",
    100_000,
  ),
  smartWallets: optional(
    word(["allow", "deny"]),
    "EVM networks: whether buyers may pay from addresses with code (ERC-1271, EIP-7702), which runs at our cost. Without it: allow.",
  ),
  lighthouse: optional(
    word(LIGHTHOUSE_RULES),
    "Solana: whether transactions may hold the assertions that wallets such as Phantom add.",
    "assertions",
  ),
  // Three settlements at the highest fee that is allowed by default, and thirty without a priority fee.
  lighthouseLossPerHour: optional(
    whole(30_000, 1_000_000_000, LOSS_REASON),
    "Solana: lamports that transactions with assertions may cost us by failing within an hour; then none are taken.",
    300_000,
  ),
  nativePrice: optional(
    dollars("$3000"),
    "Dollars for one whole unit of the network's currency: warns at the start where gas costs more than a route.",
  ),
});

/** `facilitator.embedded`. */
export const embedded = map({
  networks: described(
    named(embeddedNetwork, NETWORK),
    "What this process settles itself, by network.",
  ),
  allow: optional(
    map({
      payTo: optional(
        listOf(text(readPayee, ADDRESS)),
        "Who may be paid besides the payees of our own routes.",
      ),
      assets: optional(
        listOf(plainText),
        "Tokens that others may settle besides those of our own routes: symbols or addresses.",
      ),
      minAmount: optional(
        dollars("$0.001"),
        "Dollars that others have to pay at least, since each settlement is at our cost. Without it: about its gas " +
          "where nativePrice says what that is worth, else nothing but 0 is refused.",
      ),
    }),
    "What is settled beyond our own routes, when others settle through us.",
  ),
});

type WrittenEmbedded = z.output<typeof embedded>;
type WrittenNetwork = WrittenEmbedded["networks"][string];

const NETWORKS: Path = ["facilitator", "embedded", "networks"];

/** A network that this process settles itself, without what depends on the routes. */
export type Settler = Omit<EvmEmbeddedNetwork, "assets"> | Omit<SolanaEmbeddedNetwork, "assets">;

/** Keys that belong to the other family of networks, by the family of a network; what to do instead. */
const FOREIGN_KEYS: Readonly<
  Record<Network["kind"], readonly (readonly [key: string, instead: string])[]>
> = {
  evm: [
    ["commitment", "write confirmations: 1, or leave it out for what suits the network"],
    ["maxFeeLamports", "remove it"],
    ["lighthouse", "remove it"],
    ["lighthouseLossPerHour", "remove it"],
  ],
  solana: [
    ["confirmations", "write commitment: confirmed, or commitment: finalized"],
    ["smartWallets", "remove it"],
  ],
};
const FAMILIES = { evm: "an EVM network", solana: "a Solana network" };

/** Reads the embedded networks; whether they are enough is only known with the routes. */
export function readSettlers(
  embedded: WrittenEmbedded | undefined,
  context: Context,
): readonly Settler[] {
  const networks = embedded?.networks ?? {};
  const settlers = context
    .networkKeys(NETWORKS)
    .flatMap((name) => (networks[name] ? [settler(name, networks[name], context)] : []));
  for (const [name, { signers }] of Object.entries(networks)) {
    if (!isNetworkName(name)) checkReferences([...NETWORKS, name, "signers"], signers, context);
  }
  if (
    embedded !== undefined &&
    Object.keys(networks).length === 0 &&
    context.tree.intact(NETWORKS)
  ) {
    context.problems.error(NETWORKS, fault("bad-value", "must have at least one network"));
  }
  return settlers;
}

function settler(name: NetworkName, written: WrittenNetwork, context: Context): Settler {
  const { problems, tree } = context;
  const path = [...NETWORKS, name];
  const network = networkOf(name);
  if (written.rpc.length === 0 && tree.intact([...path, "rpc"])) {
    problems.error([...path, "rpc"], fault("bad-value", "must have at least one URL"));
  }
  if (written.signers.length === 0 && tree.intact([...path, "signers"])) {
    problems.error([...path, "signers"], fault("bad-value", "must have at least one key"));
  }
  refuseForeignKeys(network, context);
  const common = {
    network: name,
    rpc: written.rpc.map(endpointOf),
    signers: readSigners(network, written.signers, [...path, "signers"], context),
    nativePriceAttodollars: written.nativePrice ?? null,
  };
  if (network.kind === "evm") {
    const confirmations = written.confirmations ?? network.recommendedConfirmations;
    return { kind: "evm", ...common, confirmations, smartWallets: written.smartWallets ?? "allow" };
  }
  const { commitment, lighthouse } = written;
  return {
    kind: "solana",
    ...common,
    commitment,
    maxFeeLamports: BigInt(written.maxFeeLamports),
    lighthouse,
    lighthouseLossPerHour: BigInt(written.lighthouseLossPerHour),
  };
}

/** What means nothing on a network would be believed to work: it is refused and not passed over. */
function refuseForeignKeys({ name, kind }: Network, { problems, tree }: Context): void {
  for (const [key, instead] of FOREIGN_KEYS[kind]) {
    const path = [...NETWORKS, name, key];
    if (!tree.has(path)) continue;
    const message = `has no meaning on ${FAMILIES[kind]}`;
    problems.errorAtKey(path, fault("unused-key", message, instead));
  }
}

/** Of a network whose name is mistyped: what kind of keys it wants cannot be known. */
function checkReferences(path: Path, references: readonly string[], context: Context): void {
  for (const [index, reference] of references.entries()) {
    const found = findKey(reference, context);
    if (found.ok || context.forgives(found.error)) continue;
    context.problems.error([...path, index], found.error);
  }
}

/** `allow.assets`: tokens that others may settle through the embedded networks, by symbol or address. */
export function allowedAssets(
  names: readonly string[],
  { assets, settlers }: { readonly assets: Assets; readonly settlers: readonly Settler[] },
  { problems }: Context,
): ReadonlyMap<NetworkName, readonly Asset[]> {
  const allowed = new Map<NetworkName, Asset[]>(settlers.map((each) => [each.network, []]));
  const path = ["facilitator", "embedded", "allow", "assets"];
  for (const [index, name] of names.entries()) {
    const before = [...allowed.values()].flat().length;
    for (const [network, list] of allowed) {
      const asset = assets.find(name, network) ?? assets.findByAddress(name, network);
      if (asset !== undefined) list.push(asset);
    }
    if ([...allowed.values()].flat().length > before) continue;
    if (settlers.some(({ network }) => assets.wasRefused(name, network))) continue;
    const symbols = settlers.flatMap((each) => assets.symbols(each.network));
    problems.error([...path, index], unknownAsset(name, symbols));
  }
  return allowed;
}

function unknownAsset(name: string, symbols: readonly string[]): Fault {
  const address = readAddress(name);
  if (!address.ok && address.error.code === "bad-checksum") return address.error;
  const message = `no embedded network has an asset of this ${address.ok ? "address" : "name"}`;
  return fault("unknown-asset", message, didYouMean(name, symbols) ?? "define it under assets");
}
