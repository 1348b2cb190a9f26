/**
 * Configuration -> the chains that are settled on and looked at. What only one kind of network needs is
 * loaded where such a network is configured: Solana's libraries would double the start of all others.
 */
import type { Config, EmbeddedNetwork, ObservedNetwork } from "../config/config.ts";
import { createEvmMechanism, createEvmObserver } from "../mechanism/evm/evm.ts";
import type { TakenFees, Follower, Mechanism, Observer, Probed } from "../mechanism/mechanism.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import type { Time } from "../time/time.ts";
import { isEvmAddress } from "../x402/address.ts";
import {
  networkOf,
  type EvmNetwork,
  type NetworkName,
  type SolanaNetwork,
} from "../x402/network.ts";
import { isSolanaAddress } from "../x402/solana-address.ts";
import { guardTeller } from "./guard-teller.ts";

/** What chains stand on. */
export interface Surroundings {
  readonly telemetry: Telemetry;
  readonly time: Time;
  /** Hears that a network could not be used for something. Default: nobody does. */
  readonly onDoubt?: (network: NetworkName) => void;
  /** Whether somebody's money may not pay on a network. Default: everybody's may. */
  readonly isDenied?: ((network: string, address: string) => boolean) | undefined;
}

/** What is settled in this process, in the order configured. */
export function createMechanisms(
  { facilitator, refunds }: Pick<Config, "facilitator" | "refunds">,
  at: Surroundings,
): Promise<readonly Mechanism[]> {
  const { embedded, payees } = facilitator;
  return Promise.all(
    embedded.map((settings) => createMechanism(settings, { payees, refunds }, at)),
  );
}

/** A network that is settled here, and the keys of accounts that buyers may have been told a while ago. */
export type SettledNetwork = EmbeddedNetwork & {
  readonly leaving?: EmbeddedNetwork["signers"];
};

export async function createMechanism(
  settings: SettledNetwork,
  { payees, refunds }: { readonly payees: AllowedPayees; readonly refunds: Config["refunds"] },
  at: Surroundings,
): Promise<Mechanism> {
  const keys = settings.signers.map(({ key }) => key.reveal());
  const refundKey = refunds?.signers[settings.kind]?.key.reveal();
  if (settings.kind === "evm") {
    const allowPayTo = payeesOn("evm", payees);
    const { smartWallets } = settings;
    const ours = { keys, refundKey, allowPayTo, smartWallets };
    return createEvmMechanism({ ...evmChain(settings, at), ...ours });
  }
  const { createSolanaMechanism } = await import("../mechanism/solana/solana.ts");
  const { maxFeeLamports, lighthouse, lighthouseLossPerHour, leaving = [] } = settings;
  return createSolanaMechanism({
    ...solanaChain(settings, at),
    keys,
    refundKey,
    leavingKeys: leaving.map(({ key }) => key.reveal()),
    allowPayTo: payeesOn("solana", payees),
    maxFeeLamports,
    lighthouse,
    lighthouseLossPerHour,
    isDenied: (owner) => at.isDenied?.(settings.network, owner) ?? false,
    onGuardState: guardTeller(settings, at.telemetry),
  });
}

/** What can be looked at without a key. */
export function createObservers(
  networks: readonly ObservedNetwork[],
  at: Surroundings,
): Promise<readonly ObservedChain[]> {
  return Promise.all(networks.map((settings) => createObserver(settings, at)));
}

export type ObservedChain = Observer & Follower & Probed & TakenFees;

export async function createObserver(
  settings: ObservedNetwork,
  at: Surroundings,
): Promise<ObservedChain> {
  if (settings.kind === "evm") return createEvmObserver(evmChain(settings, at));
  const { createSolanaObserver } = await import("../mechanism/solana/solana.ts");
  return createSolanaObserver(solanaChain(settings, at));
}

export type AllowedPayees = Config["facilitator"]["payees"];

/** Those payees who can be paid on that kind of network; an empty list allows nobody. */
export function payeesOn(kind: "evm" | "solana", payees: AllowedPayees): AllowedPayees {
  return payees === "any" ? payees : payees.filter(kind === "evm" ? isEvmAddress : isSolanaAddress);
}

type EvmChain = Pick<
  Extract<ObservedNetwork, { readonly kind: "evm" }>,
  "network" | "rpc" | "assets" | "confirmations"
>;

/** What a mechanism and an observer have in common. */
function evmChain(settings: EvmChain, at: Surroundings) {
  const { assets, confirmations } = settings;
  const clock = (): number => Math.floor(at.time.now() / 1000);
  return {
    ...endpoints(settings, at),
    network: evmNetwork(settings.network),
    assets,
    confirmations,
    clock,
  };
}

type SolanaChain = Pick<
  Extract<ObservedNetwork, { readonly kind: "solana" }>,
  "network" | "rpc" | "assets" | "commitment"
>;

function solanaChain(settings: SolanaChain, at: Surroundings) {
  const { network: name, assets, commitment } = settings;
  const { time, telemetry } = at;
  const onTrouble = (message: string): void => telemetry.logger.warn({ network: name }, message);
  const network = solanaNetwork(name);
  return { ...endpoints(settings, at), network, assets, commitment, time, onTrouble };
}

function endpoints(
  { network, rpc }: Pick<ObservedNetwork, "network" | "rpc">,
  { telemetry, onDoubt }: Surroundings,
) {
  const { metrics } = telemetry;
  const who = {};
  return {
    rpcUrls: rpc.map(({ url }) => url.reveal()),
    observer: (method: string, durationMs: number, outcome: string) => {
      metrics.rpcCall(network, method, outcome, durationMs / 1000);
    },
    onHealth: (host: string, isHealthy: boolean | undefined) => {
      metrics.rpcHealth(network, host, isHealthy, who);
    },
    onDoubt: () => onDoubt?.(network),
  };
}

function evmNetwork(name: NetworkName): EvmNetwork {
  const network = networkOf(name);
  if (network.kind !== "evm") throw new TypeError(`${name} is no EVM network`);
  return network;
}

function solanaNetwork(name: NetworkName): SolanaNetwork {
  const network = networkOf(name);
  if (network.kind !== "solana") throw new TypeError(`${name} is no Solana network`);
  return network;
}
