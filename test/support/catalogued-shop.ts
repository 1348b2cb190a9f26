/**
 * A gateway that runs from a file and has its payments settled elsewhere, by a real facilitator behind a
 * catalogue that sees what passes through it.
 */
import { createServer } from "node:http";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { start, type Running } from "../../src/app.ts";
import { formatProblems, loadConfig } from "../../src/config/config.ts";
import { drain, listen } from "../../src/gateway/listener/listener.ts";
import { startCatalogue, type Catalogue } from "./catalogue.ts";
import { startChain, type Chain } from "./chain.ts";
import { freePort } from "./free-port.ts";
import { startGateway, type RunningGateway } from "./gateway.ts";

export interface CataloguedShop extends AsyncDisposable {
  readonly chain: Chain;
  readonly facilitator: RunningGateway;
  readonly catalogue: Catalogue;
  /** The configuration, in a folder of its own. */
  readonly folder: string;
  readonly file: string;
  readonly url: string;
  readonly adminUrl: string;
  readonly running: Running;
  /** The text of the configuration with other routes; lines of the map, indented by two. */
  yaml(routes: string): string;
  /** Writes these routes into the file and has the gateway read it. */
  reroute(routes: string): Promise<void>;
}

/**
 * The backend has everything but `/llms.txt`.
 * @param discovery the `discovery` block on one line
 */
export async function startCataloguedShop(
  routes: string,
  discovery: string,
): Promise<CataloguedShop> {
  await using closing = new AsyncDisposableStack();
  const chain = await startChain();
  closing.defer(() => chain.stop());
  const facilitator = closing.use(await startGateway({ chain }));
  const catalogue = await startCatalogue(facilitator.facilitatorUrl);
  closing.defer(() => catalogue.close());
  const backend = createServer(({ url: path }, response) => {
    response.writeHead(path === "/llms.txt" ? 404 : 200).end("what was paid for");
  });
  const { port: backendPort } = await listen(backend, { host: "127.0.0.1", port: 0 });
  closing.defer(() => drain(backend, AbortSignal.timeout(1_000)));
  const folder = await mkdtemp(join(tmpdir(), "coinslot-catalogued-"));
  closing.defer(() => rm(folder, { recursive: true, force: true }));
  const file = join(folder, "gateway.yaml");
  const [port, adminPort] = [await freePort(), await freePort()];
  const url = `http://127.0.0.1:${port}`;
  const yaml: CataloguedShop["yaml"] = (others) => `
listen: 127.0.0.1:${port}
admin: 127.0.0.1:${adminPort}
publicUrl: ${url}
upstream: http://127.0.0.1:${backendPort}
payTo: "${facilitator.payee}"
accept: [${chain.network.name}]
facilitator: { remote: [{ url: "${catalogue.url}" }] }
unmatched: deny
store: sqlite:${folder}/ledger.db
logging: { level: silent }
discovery: ${discovery}
routes: ${others}
`;
  await writeFile(file, yaml(routes));
  const loaded = await loadConfig(file);
  if (!loaded.ok) throw new Error(formatProblems(loaded.problems, loaded.text));
  const running = await start(loaded.config, "test", { load: () => loadConfig(file) });
  closing.defer(() => running.close());
  const owned = closing.move();
  return {
    chain,
    facilitator,
    catalogue,
    folder,
    file,
    url,
    adminUrl: `http://127.0.0.1:${adminPort}`,
    running,
    yaml,
    async reroute(others) {
      await writeFile(file, yaml(others));
      const { reloaded } = await running.reload("SIGHUP");
      if (!reloaded) throw new Error("the gateway does not take these routes");
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
