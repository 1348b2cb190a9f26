/** A shared listing where it is not one process that serves it: workers, replicas, and a gateway that asks for it. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { freePort } from "../support/free-port.ts";
import { startChain, type Chain } from "../support/chain.ts";
import {
  buy,
  hubYaml,
  listed,
  resourcesOf,
  startHub,
  startSeller,
  tokenOf,
  WEATHER,
} from "../support/hub.ts";
import { freshAccount } from "../support/payer.ts";
import { startPostgres, type PostgresServer } from "../support/postgres.ts";
import { Site, type Served } from "../support/serve.ts";
import { runHere } from "./cli/run-here.ts";
import { bothWorkersOf, COMES_TRUE, connectTo, kill, workersOf } from "./workers/stage.ts";

// Each of them starts several processes.
vi.setConfig({ testTimeout: 120_000 });

/** How long it takes at most until a replica looks for what the others have stored, and some. */
const SEEN_BY_REPLICAS = { timeout: 40_000, interval: 200 };

let chain: Chain;
let postgres: PostgresServer;
const signer = freshAccount();

beforeAll(async () => {
  chain = await startChain();
  await chain.fund(signer.address, 0n, 10n ** 18n);
  postgres = await startPostgres();
});

afterAll(async () => {
  await postgres.stop();
  await chain.stop();
});

/** The file of a hub that is a process of its own, and where its facilitator is. */
async function hubFile(more = "") {
  const port = await freePort();
  const facilitator = hubYaml({ chain }).replace("127.0.0.1:0", `127.0.0.1:${port}`);
  const yaml = `
upstream: http://127.0.0.1:9
payTo: "${signer.address}"
accept: [${chain.network.name}]
facilitator: ${facilitator}
unmatched: deny
shutdown: 5s
logging: { level: debug }
${more}
routes:
  GET /own: { price: $0.05, description: Our own }
  GET /who/*: free
`;
  return { yaml, facilitatorUrl: `http://127.0.0.1:${port}` };
}

const env = { SIGNER: signer.privateKey };

const paths = async ({ url }: Pick<Served, "url">): Promise<readonly string[]> =>
  resourcesOf(await listed(url)).map((resource) => new URL(resource).pathname);

test("every worker lists what a gateway sold, new ones and those of a new configuration too", async () => {
  const { yaml, facilitatorUrl } = await hubFile("workers: 2");
  await using site = await Site.create();
  const served = await site.serve(yaml, env);
  await served.untilReady();
  const workers = await bothWorkersOf(served);
  await using seller = await startSeller({ chain, facilitatorUrl });
  await buy(chain, `${seller.url}/today`);
  for (const worker of [1, 2]) {
    using connection = await connectTo(served, worker);
    const text = async () => (await connection.get("/discovery/resources")).text;
    await expect.poll(text, COMES_TRUE).toContain(`${WEATHER}/today`);
  }
  kill(workers.get(1));
  await expect.poll(() => workersOf(served).get(1), COMES_TRUE).not.toBe(workers.get(1));
  await site.write(yaml.replace("/own:", "/mine:"));
  const reloaded = await fetch(`${served.adminUrl}/-/reload`, { method: "POST" });
  expect(reloaded.status).toBe(200);
  await buy(chain, `${seller.url}/forecast`, { method: "POST", body: "{}" });
  for (const worker of [1, 2]) {
    using connection = await connectTo(served, worker);
    const text = async () => (await connection.get("/discovery/resources")).text;
    await expect.poll(text, COMES_TRUE).toContain(`${WEATHER}/forecast`);
    expect(await text()).toContain(`${WEATHER}/today`);
    expect(await text()).toContain("/mine");
  }
  expect(await served.end("SIGTERM")).toBe(0);
});

test("a replica lists what was sold through another one, and all of it after kill -9", async () => {
  const store = await postgres.database();
  const [first, second] = [await hubFile(), await hubFile()];
  await using one = await Site.create({ store });
  await using two = await Site.create({ store });
  const [here, there] = [await one.serve(first.yaml, env), await two.serve(second.yaml, env)];
  await Promise.all([here.untilReady(), there.untilReady()]);
  {
    await using seller = await startSeller({ chain, facilitatorUrl: first.facilitatorUrl });
    await buy(chain, `${seller.url}/today`);
  }
  expect(await paths(here)).toEqual(["/own", "/today"]);
  await expect.poll(() => paths(there), SEEN_BY_REPLICAS).toEqual(["/own", "/today"]);
  await here.end("SIGKILL");
  const again = await one.launch(env);
  await again.untilReady();
  expect(await paths(again)).toEqual(["/own", "/today"]);
  expect(await Promise.all([again.end("SIGTERM"), there.end("SIGTERM")])).toEqual([0, 0]);
});

test("`coinslot listing` of a gateway says which of its routes the shared listing has", async () => {
  await using hub = await startHub({ chain });
  await using seller = await startSeller({ chain, facilitatorUrl: hub.facilitatorUrl });
  await buy(chain, `${seller.url}/stations/7/readings`);
  const folder = await mkdtemp(join(tmpdir(), "coinslot-hub-listing-"));
  try {
    const file = join(folder, "gateway.yaml");
    await writeFile(
      file,
      `
publicUrl: ${WEATHER}
upstream: http://127.0.0.1:9
payTo: "${signer.address}"
accept: [${chain.network.name}]
facilitator:
  remote:
    - url: ${hub.facilitatorUrl}
      headers: { Authorization: "Bearer ${tokenOf("weather")}" }
unmatched: deny
store: sqlite:${folder}/none.db
discovery: { listed: false }
routes:
  GET /today: { price: $0.01, description: The weather today }
  GET /stations/:id/readings: { price: $0.02, description: Readings of a station }
`,
    );
    const { stdout } = await runHere(["listing", file, "--json"]);
    const { routes } = JSON.parse(stdout);
    const host = new URL(hub.facilitatorUrl).host;
    const states = routes.map(({ key, places }: { key: string; places: readonly Place[] }) => {
      const at = places.find(({ place }) => place === host);
      return [key, at?.state, at?.resources];
    });
    expect(states).toEqual([
      ["GET /today", "missing", []],
      ["GET /stations/:id/readings", "other-terms", [`${WEATHER}/stations/:id/readings`]],
    ]);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});

interface Place {
  readonly place: string;
  readonly state: string;
  readonly resources: readonly string[];
}
