import { afterAll, beforeAll } from "vitest";
import { FacilitatorMesh } from "../../../src/facilitator/mesh.ts";
import { startChain, type Chain } from "../../support/chain.ts";
import { describeFacilitator } from "./facilitator-contract.ts";
import { openRemote } from "./stage.ts";

let started: Chain;
beforeAll(async () => {
  started = await startChain();
});
afterAll(() => started.stop());
const chain = (): Chain => started;

describeFacilitator("the embedded facilitator", {
  chain,
  wrap: (embedded) => embedded,
  notBegun: "unavailable",
});

describeFacilitator("the remote facilitator", {
  chain,
  wrap: (_, url, closing) => openRemote(url, closing),
  notBegun: "unknown",
});

describeFacilitator("the mesh over the embedded facilitator", {
  chain,
  wrap: (embedded) => new FacilitatorMesh(embedded, []),
  notBegun: "unavailable",
});

describeFacilitator("the mesh over the remote facilitator", {
  chain,
  wrap: (_, url, closing) => new FacilitatorMesh(undefined, [openRemote(url, closing)]),
  notBegun: "unknown",
});
