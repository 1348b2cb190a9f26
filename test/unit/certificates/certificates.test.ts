/** How often an authority is asked where the ledger does not keep what came of it, and where a clock was wrong. */
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { Certificates } from "../../../src/certificates/certificates.ts";
import { keep, readKept } from "../../../src/certificates/kept.ts";
import type { KeptCertificates } from "../../../src/ledger/certificates.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { systemTime } from "../../../src/time/time.ts";
import { FIRST } from "../../support/listener-tls.ts";
import { MemoryLedger } from "../../support/memory-ledger.ts";
import { MemoryStore } from "../../support/memory-store.ts";

const DOMAIN = "shop.example";
const DAY_MS = 86_400_000;

/** An authority that takes every order and goes no further. */
async function authority(orderStatus = 201, detail = "") {
  const asked: string[] = [];
  const server = createServer({ cert: FIRST.cert, key: FIRST.key }, (request, response) => {
    const { port } = server.address() as AddressInfo;
    const here = `https://127.0.0.1:${port}`;
    asked.push(request.url ?? "");
    response.setHeader("Replay-Nonce", "nonce");
    if (request.url === "/dir") {
      const [newNonce, newAccount, newOrder] = ["nonce", "account", "order"].map(
        (name) => `${here}/${name}`,
      );
      response.end(JSON.stringify({ newNonce, newAccount, newOrder }));
    } else if (request.url === "/account" || request.url === "/order") {
      const status = request.url === "/order" ? orderStatus : 201;
      response.writeHead(status, { Location: `${here}${request.url}/1` });
      response.end(JSON.stringify({ status: "invalid", detail }));
    } else response.end("{}");
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const folder = await mkdtemp(join(tmpdir(), "coinslot-certificates-"));
  onTestFinished(async () => {
    server.closeAllConnections();
    server.close();
    await rm(folder, { recursive: true });
  });
  const ca = join(folder, "ca.pem");
  await writeFile(ca, FIRST.cert);
  return {
    directory: `https://127.0.0.1:${(server.address() as AddressInfo).port}/dir`,
    ca,
    asked,
  };
}

async function looking(
  { directory, ca }: { readonly directory: string; readonly ca: string },
  store: KeptCertificates,
  { domains = () => [DOMAIN], unserved = () => undefined }: Partial<Looking> = {},
): Promise<void> {
  const certificates = new Certificates({
    settings: () => ({ directory, ca, email: null, domains: domains(), challenges: ["http-01"] }),
    store,
    time: systemTime,
    logger: createLogger({ level: "silent", format: "json" }),
    meter: {
      certificate: () => undefined,
      refused: () => undefined,
      awaited: () => undefined,
      unserved,
    },
  });
  onTestFinished(() => certificates.stop());
  await certificates.start();
}

interface Looking {
  readonly domains: () => readonly string[];
  readonly unserved: (name: string) => void;
}

function kept(): KeptCertificates {
  const ledger = new MemoryLedger({ store: new MemoryStore(), time: systemTime, life: "one" });
  return ledger.certificates;
}

test("a ledger that keeps no failure does not make an authority be asked again at once", async () => {
  const { asked, ...place } = await authority();
  const store = kept();
  const put: KeptCertificates["put"] = async (text) => {
    if (/^(?:order|failure) /.test(text.name)) throw new Error("the disk is full");
    return store.put(text);
  };
  await looking(place, { ...store, put });
  const orders = () => asked.filter((url) => url === "/order").length;
  await expect.poll(orders, { timeout: 5_000 }).toBe(1);
  await new Promise((resolve) => setTimeout(resolve, 3_500));
  expect(orders()).toBe(1);
}, 15_000);

test.each([
  ["that a clock far ahead has kept is over", 400 * DAY_MS, 1],
  ["that the longest wait of an authority has made is kept to", DAY_MS, 0],
])(
  "a pause %s",
  async (_, aheadMs, expected) => {
    const { asked, ...place } = await authority();
    const store = kept();
    await keep(store, ["failure", DOMAIN], {
      directory: place.directory,
      failures: 1,
      againMs: Date.now() + aheadMs,
      reason: "",
    });
    await looking(place, store);
    const orders = () => asked.filter((url) => url === "/order").length;
    if (expected === 1) await expect.poll(orders, { timeout: 5_000 }).toBe(1);
    else await new Promise((resolve) => setTimeout(resolve, 2_500));
    expect(orders()).toBe(expected);
  },
  15_000,
);

test("what its library throws of an authority's words is cut, and escaped", async () => {
  const { asked: _, ...place } = await authority(202, `\u001b[31m${"x".repeat(100_000)}`);
  const store = kept();
  await looking(place, store);
  const failure = async () => (await readKept(store)).get("failure", DOMAIN);
  await expect.poll(failure, { timeout: 5_000 }).toBeDefined();
  const { reason = "" } = (await failure()) ?? {};
  expect(reason).toMatch(/^\ufffd\[31mx+…$/);
  expect(reason.length).toBeLessThan(500);
}, 15_000);

test("a name that leaves the file has no certificate that could end", async () => {
  const { asked: _, ...place } = await authority();
  let domains = [DOMAIN, "gone.example"];
  const gone: string[] = [];
  const unserved = (name: string): void => void gone.push(name);
  await looking(place, kept(), { domains: () => domains, unserved });
  expect(gone).toEqual([]);
  domains = [DOMAIN];
  await expect.poll(() => gone, { timeout: 5_000 }).toEqual(["gone.example"]);
}, 15_000);
