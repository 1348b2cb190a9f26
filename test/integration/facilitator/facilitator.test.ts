import { onTheWire } from "../../../src/facilitator/wire-facilitator.ts";
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll } from "vitest";
import { RecordedFacilitator } from "../../../src/facilitator/recorded-facilitator.ts";
import { createEvmObserver } from "../../../src/mechanism/evm/evm.ts";
import type { Observer } from "../../../src/mechanism/mechanism.ts";
import { systemTime } from "../../../src/time/time.ts";
import { startChain, type Chain } from "../../support/chain.ts";
import { MemoryLedger, MemoryStore } from "../../support/memory-ledger.ts";
import { describeFacilitator } from "./facilitator-contract.ts";
import { openMesh, openRemote } from "./stage.ts";

let started: Chain;
beforeAll(async () => {
  started = await startChain();
});
afterAll(() => started.stop());
const chain = (): Chain => started;

describeFacilitator("the embedded facilitator", {
  chain,
  wrap: (embedded) => onTheWire(embedded),
  notBegun: "unavailable",
});

describeFacilitator("the remote facilitator", {
  chain,
  wrap: (_, url, closing) => openRemote(url, closing),
  notBegun: "unknown",
});

describeFacilitator("the mesh over the embedded facilitator", {
  chain,
  wrap: (embedded) => onTheWire(openMesh({ embedded })),
  notBegun: "unavailable",
});

describeFacilitator("the mesh over the remote facilitator", {
  chain,
  wrap: (_, url, closing) => onTheWire(openMesh({ remotes: [openRemote(url, closing)] })),
  notBegun: "unknown",
});

describeFacilitator("the mesh over the remote facilitator, by receipt,", {
  chain,
  wrap: (_, url, closing) => {
    const remotes = [openRemote(url, closing, { confirm: "receipt" })];
    return onTheWire(openMesh({ remotes, observers: openObservers(closing) }));
  },
  notBegun: "unknown",
});

describeFacilitator("the remote facilitator as it is offered to others", {
  chain,
  wrap: (_, url, closing) => {
    const life = randomUUID();
    const ledger = new MemoryLedger({ store: new MemoryStore(), time: systemTime, life });
    const remotes = [openRemote(url, closing)];
    const facilitator = openMesh({ remotes, observers: openObservers(closing) });
    return new RecordedFacilitator({ facilitator, ledger, time: systemTime });
  },
  notBegun: "unknown",
});

const clock = (): number => Math.floor(Date.now() / 1000);

/** The chain without the faults before it. */
function openObservers(closing: AsyncDisposableStack): ReadonlyMap<string, Observer> {
  const { network, rpcUrl } = started;
  const assets = [network.asset];
  const observer = createEvmObserver({ network, assets, rpcUrls: [rpcUrl], clock });
  closing.defer(() => observer.close());
  return new Map([[network.name, observer]]);
}
