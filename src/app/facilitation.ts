/** Configuration -> everything that verifies and settles: mechanisms, their gate, the facilitators. */
import type { Config, RemoteFacilitator as RemoteSettings } from "../config/config.ts";
import { EmbeddedFacilitator } from "../facilitator/embedded.ts";
import { FacilitatorMesh } from "../facilitator/mesh.ts";
import { NetworkGate, type Probe } from "../facilitator/network-gate.ts";
import { startRecovery } from "../facilitator/recovery.ts";
import { RemoteFacilitator } from "../facilitator/remote.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { createEvmMechanism } from "../mechanism/evm/evm.ts";
import type { Mechanism } from "../mechanism/mechanism.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import { sameAddress } from "../x402/address.ts";
import { networkOf } from "../x402/network.ts";
import type { Facilitator } from "../facilitator/facilitator.ts";

export interface Facilitation {
  /** What the paywall asks: embedded where a network is settled here, else the remote ones. */
  readonly facilitator: Facilitator;
  /** What the REST endpoints serve: only what is settled in this process; undefined when nothing is. */
  readonly embedded: EmbeddedFacilitator | undefined;
  readonly gate: NetworkGate;
  readonly probes: readonly Probe[];
  readonly wallets: readonly Wallet[];
}

/** An account of ours that pays network fees. */
export interface Wallet {
  readonly network: string;
  readonly address: string;
  /** Where its key came from: `env:NAME` or `file:PATH`. */
  readonly source: string;
}

/** A network whose endpoint shows another chain or another token than configured: refused at start. */
class StartError extends Error {
  override readonly name = "StartError";
  readonly code = "START_REFUSED";
}

/** Builds, checks the networks and takes up unfinished settlements; `closing` gets what must be closed. */
export async function startFacilitation(
  config: Config,
  { ledger, telemetry }: { readonly ledger: Ledger; readonly telemetry: Telemetry },
  closing: AsyncDisposableStack,
): Promise<Facilitation> {
  const mechanisms = config.facilitator.embedded.map((settings) =>
    createMechanism(config, settings, telemetry),
  );
  for (const mechanism of mechanisms) closing.defer(() => mechanism.close());
  const gate = new NetworkGate(mechanisms, telemetry);
  closing.defer(() => gate.close());
  const probes = await gate.probe();
  const wrong = probes.filter(({ state }) => state === "wrong");
  if (wrong.length > 0) throw new StartError(wrong.map(describe).join("\n"));

  const remotes = config.facilitator.remote.map((settings) => createRemote(settings, telemetry));
  for (const remote of remotes) closing.defer(() => remote.close());
  const embedded =
    mechanisms.length === 0
      ? undefined
      : new EmbeddedFacilitator({
          mechanisms,
          ledger,
          gate,
          telemetry,
          clock: Date.now,
          describeAsset: (network, asset) => describeAsset(config, network, asset),
        });
  if (embedded !== undefined) {
    const recovery = startRecovery(embedded, telemetry);
    closing.defer(async () => {
      // The facilitator first: it ends the watches that recovery's round is waiting for.
      await embedded.close();
      await recovery.stop();
    });
  }
  const facilitator = new FacilitatorMesh(embedded, remotes);
  return { facilitator, embedded, gate, probes, wallets: walletsOf(config, mechanisms) };
}

function walletsOf(config: Config, mechanisms: readonly Mechanism[]): Wallet[] {
  return config.facilitator.embedded.flatMap(({ network, signers }) => {
    const accounts = mechanisms.find((each) => each.network === network)?.accounts ?? [];
    return accounts.map((address, index) => {
      return { network, address, source: signers[index]?.source ?? "" };
    });
  });
}

function createMechanism(
  config: Config,
  settings: Config["facilitator"]["embedded"][number],
  { metrics }: Telemetry,
): Mechanism {
  const network = networkOf(settings.network);
  if (network.kind !== "evm") throw new StartError(`${network.name} is not supported yet`);
  return createEvmMechanism({
    network,
    assets: settings.assets,
    rpcUrls: settings.rpc.map(({ url }) => url.reveal()),
    keys: settings.signers.map(({ key }) => key.reveal()),
    confirmations: settings.confirmations,
    clock: () => Math.floor(Date.now() / 1000),
    allowPayTo: config.facilitator.payees,
    observer: (method, durationMs, outcome) => {
      metrics.rpcCall(network.name, method, outcome, durationMs / 1000);
    },
  });
}

function createRemote(settings: RemoteSettings, telemetry: Telemetry): RemoteFacilitator {
  const headers = settings.headers.map(({ name, value }) => [name, value.reveal()] as const);
  return new RemoteFacilitator({
    url: settings.url,
    headers: Object.fromEntries(headers),
    timeoutMs: settings.timeoutMs,
    telemetry,
    clock: Date.now,
  });
}

function describeAsset(
  config: Config,
  network: string,
  address: string,
): { readonly symbol: string; readonly decimals: number } {
  const settings = config.facilitator.embedded.find((each) => each.network === network);
  const asset = settings?.assets.find((each) => sameAddress(each.address, address));
  return asset ?? { symbol: "unknown", decimals: 0 };
}

function describe({ network, findings }: Probe): string {
  const errors = findings.filter(({ level }) => level === "error");
  return errors.map(({ message }) => `${network}: ${message}`).join("\n");
}
