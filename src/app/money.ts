/**
 * The money side: the ledger, what settles, what goes on with no client asking, and the facilitator's own
 * listener. There is one in every deployment of one process or of several workers: the ledger's file, the
 * account nonces and the keys are in this process and in no other.
 */
import type { AddressInfo } from "node:net";
import { FacilitatorEndpoints } from "../facilitator/endpoints.ts";
import type { FacilitatorMesh } from "../facilitator/mesh.ts";
import type { Probe } from "../facilitator/network-gate.ts";
import { RecordedFacilitator } from "../facilitator/recorded-facilitator.ts";
import type { Drafts } from "../gateway/payment/drafts.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { LocalDrafts } from "./drafts.ts";
import { openFacilitation, type Facilitation } from "./facilitation.ts";
import type { KnownFeePayers } from "./fee-payers.ts";
import { startGauges } from "./gauges.ts";
import { startRecoveries } from "./recoveries.ts";
import { Sales } from "./sales.ts";
import { openServer, type Parts } from "./server.ts";
import { startStrangerWatch } from "./strangers.ts";
import type { Wallet } from "./wallets.ts";

export interface Money {
  readonly ledger: Ledger;
  readonly mesh: FacilitatorMesh;
  readonly feePayers: KnownFeePayers;
  /** Facilitators elsewhere. */
  readonly remotes: Facilitation["remotes"];
  readonly drafts: Drafts;
  readonly sales: Sales;
  /** Of the facilitator's listener; null: none. */
  readonly address: AddressInfo | null;
  readonly probes: readonly Probe[];
  readonly wallets: readonly Wallet[];
  /** Why nothing can be taken or settled now, in sentences; empty when it can. */
  readiness(): Promise<readonly string[]>;
}

/** Opens everything or rejects; `closing` gets what must be closed, but for the ledger. */
export async function openMoney(parts: Parts, ledger: Ledger): Promise<Money> {
  const { config, telemetry, time, closing } = parts;
  const ground = { ledger, telemetry, time };
  const facilitation = await openFacilitation(config, ground, closing);
  startRecoveries(facilitation, ground, closing);
  const strangers = startStrangerWatch(facilitation, ground);
  closing.defer(() => strangers.stop());
  const gauges = startGauges({ ...ground, mechanisms: facilitation.mechanisms });
  closing.defer(() => gauges.stop());
  const { feePayers, gate, mesh, observers, probes, remotes, wallets } = facilitation;
  const drafts = new LocalDrafts(observers, time);
  closing.defer(() => feePayers.stop());
  await feePayers.start();
  const sales = await Sales.open(config, { ledger, feePayers });
  const { list } = sales;
  const address = await openFacilitator(parts, facilitation, { ledger, list });
  const readiness = async (): Promise<readonly string[]> => {
    const closed = gate.closed().map((name) => `${name}: RPC checks have not passed`);
    const store = await ledger.ping().then(
      () => [],
      () => ["the ledger cannot be written"],
    );
    return [...closed, ...store];
  };
  return { ledger, mesh, feePayers, remotes, drafts, sales, address, probes, wallets, readiness };
}

function openFacilitator(
  parts: Parts,
  { embedded, mesh }: Facilitation,
  { ledger, list }: { readonly ledger: Ledger; readonly list: Sales["list"] },
): Promise<AddressInfo | null> {
  const { listen: address, basePath, bearer, remote } = parts.config.facilitator;
  const facilitator =
    remote.length === 0 ? embedded : new RecordedFacilitator({ facilitator: mesh, ledger });
  if (facilitator === undefined) return Promise.resolve(null);
  const endpoints = new FacilitatorEndpoints({
    facilitator,
    list,
    basePath,
    bearer: bearer?.reveal(),
    logger: parts.telemetry.logger,
  });
  return openServer(parts, address, endpoints.handle);
}
