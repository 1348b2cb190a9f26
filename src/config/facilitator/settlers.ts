/** `facilitator.embedded.networks`: the networks that this process settles itself, and with which keys. */
import { isNetworkName, networkOf, type Network, type NetworkName } from "../../x402/network.ts";
import type { Context } from "../reading/context.ts";
import type { ConfigDocument } from "../reading/document.ts";
import { findKey, readKey } from "./private-key.ts";
import { fault, literalKey, type Commitment } from "../reading/reading.ts";
import { Secret } from "./secret.ts";
import type { EvmEmbeddedNetwork, Lighthouse, Signer, SolanaEmbeddedNetwork } from "../settings.ts";
import type { Path } from "../reading/tree.ts";

const NETWORKS: Path = ["facilitator", "embedded", "networks"];

export const DEFAULT_COMMITMENT: Commitment = "confirmed";
const DEFAULT_LIGHTHOUSE: Lighthouse = "assertions";
const DEFAULT_SMART_WALLETS: EvmEmbeddedNetwork["smartWallets"] = "allow";
/** Twenty times what two signatures cost: leaves room for the priority fees of a busy network. */
const DEFAULT_MAX_FEE_LAMPORTS = 100_000n;

/** Three settlements at the highest fee that is allowed by default, and thirty without a priority fee. */
const DEFAULT_LIGHTHOUSE_LOSS_LAMPORTS = 300_000;

/** The map form of `facilitator`. */
export type WrittenFacilitator = Exclude<ConfigDocument["facilitator"], string | undefined>;
type WrittenEmbedded = NonNullable<WrittenFacilitator["embedded"]>;
type WrittenNetwork = WrittenEmbedded["networks"][string];

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
    rpc: written.rpc.map((url) => ({ url: new Secret(url.href), host: url.host })),
    signers: readSigners(network, written.signers, context),
    nativePriceAttodollars: written.nativePrice ?? null,
  };
  if (network.kind === "evm") {
    const confirmations = written.confirmations ?? network.recommendedConfirmations;
    const smartWallets = written.smartWallets ?? DEFAULT_SMART_WALLETS;
    return { kind: "evm", ...common, confirmations, smartWallets };
  }
  const { maxFeeLamports } = written;
  return {
    kind: "solana",
    ...common,
    commitment: written.commitment ?? DEFAULT_COMMITMENT,
    maxFeeLamports:
      maxFeeLamports === undefined ? DEFAULT_MAX_FEE_LAMPORTS : BigInt(maxFeeLamports),
    lighthouse: written.lighthouse ?? DEFAULT_LIGHTHOUSE,
    lighthouseLossPerHour: BigInt(
      written.lighthouseLossPerHour ?? DEFAULT_LIGHTHOUSE_LOSS_LAMPORTS,
    ),
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
    if (!found.ok) context.problems.error([...path, index], found.error);
  }
}

function readSigners(
  { name, kind, testnet }: Network,
  references: readonly string[],
  context: Context,
): readonly Signer[] {
  const { problems } = context;
  const signers: Signer[] = [];
  for (const [index, reference] of references.entries()) {
    const path = [...NETWORKS, name, "signers", index];
    const found = findKey(reference, context);
    if (!found.ok) {
      problems.error(path, found.error);
      continue;
    }
    const { source } = found.value;
    if (source === "literal") {
      problems.add(testnet ? "warning" : "error", path, literalKey(testnet ? "should" : "must"));
    }
    const key = readKey(found.value, kind);
    if (!key.ok) {
      problems.error(path, key.error);
      continue;
    }
    if (signers.some((each) => each.key.reveal() === key.value)) {
      // Two signers with one key would take each other's account nonces, or send the same bytes twice.
      problems.error(path, fault("duplicate-entry", "this is the same key as an earlier one"));
    }
    signers.push({ source, key: new Secret(key.value) });
  }
  return signers;
}
