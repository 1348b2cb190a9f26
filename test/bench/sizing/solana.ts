/** A settlement on Solana, for others: the stage of the Solana benches, with PostgreSQL. */
import { mkdtemp } from "node:fs/promises";
import { join } from "node:path";
import type { PostgresServer } from "../../support/postgres.ts";
import {
  descendantNamed,
  endedCpuMicros,
  mainThreadMicros,
  preciseCpuMicros,
  type Program,
} from "../process.ts";
import { median, post } from "../rounds.ts";
import { SLOT_MS, SolanaStage, startFacilitator, startNode } from "../solana-stage.ts";
import type { KindCost } from "./figures.ts";
import { once } from "./kinds.ts";
import { loadOf } from "./spans.ts";

const BUYERS = 200;
const IN_FLIGHT = 20;
const [ROUNDS, PAYMENTS] = [3, 80];
/** In short slots, before anything is measured. */
const WARM_UP = { rounds: 4, slotMs: 100 };

/** The node runs in Node as ours does, and stands for no real one: what it takes is left out. */
export async function measureSolana(
  folder: string,
  postgres: PostgresServer,
  load: Program,
): Promise<KindCost> {
  await using closing = new AsyncDisposableStack();
  const own = await mkdtemp(join(folder, "solana-"));
  const node = await startNode();
  closing.defer(() => node.stop());
  const stage = await SolanaStage.open(node, BUYERS);
  const store = await postgres.database();
  const { server } = await startFacilitator(own, node.url, stage.feePayer, store);
  closing.defer(() => server.stop());
  const database = descendantNamed("postgres");
  const read = () => ({
    gateway: preciseCpuMicros(server.pid),
    thread: mainThreadMicros(server.pid),
    postgres: preciseCpuMicros(database) + endedCpuMicros(database),
  });
  const settle = async (): Promise<ReturnType<typeof read>> => {
    const requests = (await stage.signPayments(PAYMENTS)).map((body) => post("/settle", body));
    const expect = { status: 200, text: '"success":true' };
    const before = read();
    await loadOf(load, { ...once(server.url, requests), connections: IN_FLIGHT, expect });
    const after = read();
    return {
      gateway: (after.gateway - before.gateway) / PAYMENTS,
      thread: (after.thread - before.thread) / PAYMENTS,
      postgres: (after.postgres - before.postgres) / PAYMENTS,
    };
  };
  await node.rpc("svm_setSlotMs", [WARM_UP.slotMs]);
  for (let round = 0; round < WARM_UP.rounds; round += 1) await settle();
  await node.rpc("svm_setSlotMs", [SLOT_MS]);
  const rounds = [];
  for (let round = 0; round < ROUNDS; round += 1) rounds.push(await settle());
  return {
    gateway: median(rounds.map(({ gateway }) => gateway)),
    thread: median(rounds.map(({ thread }) => thread)),
    postgres: median(rounds.map(({ postgres: spent }) => spent)),
    node: 0,
  };
}
