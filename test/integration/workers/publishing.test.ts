/** What a gateway of two workers publishes: each of them answers for itself, and all say the same. */
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { Site, type Served } from "../../support/serve.ts";
import { connectTo, COMES_TRUE, startBackend, type Backend, type Connection } from "./stage.ts";

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const PATHS = [
  "/discovery/resources",
  "/discovery/resources?q=report&limit=1",
  "/.well-known/x402",
  "/openapi.json",
  "/llms.txt",
  "/catalogue",
] as const;

const yaml = (backend: Pick<Backend, "url">, weather: string): string => `
upstream: ${backend.url}
payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"
accept: [base-sepolia]
facilitator: http://127.0.0.1:1
unmatched: deny
workers: 2
shutdown: { within: 5s, delay: 0s }
logging: { level: debug }
discovery: { wellKnown: true, openapi: true, llms: true, page: /catalogue }
routes:
  GET /weather: { price: ${weather}, description: Weather }
  GET /reports/:id: { price: $0.25, description: A report }
  GET /who/*: free
`;

/** What both say at a path, after it was seen that it is the same. */
async function saidBy(workers: readonly Connection[], path: string) {
  const answers = await Promise.all(workers.map((worker) => worker.get(path)));
  const [first, second] = answers.map(({ status, text, headers }) => {
    return { status, text, etag: headers.etag };
  });
  expect(second).toEqual(first);
  expect(first).toMatchObject({ status: 200, etag: expect.stringMatching(/^"[\w-]{24}"$/) });
  return { text: first?.text ?? "", etag: first?.etag ?? "" };
}

const listed = (text: string) => JSON.parse(text).items;

describe("with two workers", () => {
  let backend: Backend;
  let site: Site;
  let served: Served;

  beforeAll(async () => {
    backend = await startBackend((_, response) => void response.end("fine"));
    site = await Site.create();
    served = await site.serve(yaml(backend, "$0.01"), {});
    await served.untilReady();
  });

  afterAll(async () => {
    await site[Symbol.asyncDispose]();
    await backend[Symbol.asyncDispose]();
  });

  async function bothWorkers(): Promise<readonly [Connection, Connection]> {
    return [await connectTo(served, 1), await connectTo(served, 2)];
  }

  test("every document is the same from both, before and after a new configuration", async () => {
    const before = new Map<string, { text: string; etag: string }>();
    const workers = await bothWorkers();
    for (const path of PATHS) before.set(path, await saidBy(workers, path));
    expect(before.get("/catalogue")?.text).toContain("0.01 USDC");
    const [report, weather] = listed(before.get("/discovery/resources")?.text ?? "{}");
    expect(weather.accepts[0].maxAmountRequired).toBe("10000");
    for (const worker of workers) worker[Symbol.dispose]();

    // Unix seconds: what changes now is later than what is there.
    await expect
      .poll(() => Math.floor(Date.now() / 1000), COMES_TRUE)
      .toBeGreaterThan(weather.lastUpdated);
    await site.write(yaml(backend, "$0.03"));
    const answer = await fetch(`${served.adminUrl}/-/reload`, { method: "POST" });
    expect(await answer.json()).toMatchObject({ reloaded: true });

    const renewed = await bothWorkers();
    for (const path of PATHS) {
      const { text, etag } = await saidBy(renewed, path);
      if (path.includes("q=report") || path === "/.well-known/x402") {
        expect(text).toBe(before.get(path)?.text);
      } else expect(etag).not.toBe(before.get(path)?.etag);
    }
    const after = await saidBy(renewed, "/discovery/resources");
    const [sameReport, newWeather] = listed(after.text);
    expect(sameReport).toEqual(report);
    expect(newWeather.accepts[0].maxAmountRequired).toBe("30000");
    expect(newWeather.lastUpdated).toBeGreaterThan(weather.lastUpdated);
    expect((await saidBy(renewed, "/catalogue")).text).toContain("0.03 USDC");
    for (const worker of renewed) worker[Symbol.dispose]();
  });
});
