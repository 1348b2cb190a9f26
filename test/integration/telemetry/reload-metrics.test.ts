import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { Site } from "../../support/serve.ts";
import { metricOf } from "../workers/stage.ts";

vi.setConfig({ testTimeout: 60_000 });

const CONFIG = `
upstream: http://127.0.0.1:9
payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"
accept: [base-sepolia]
facilitator: http://127.0.0.1:9
unmatched: deny
routes:
  GET /weather: $0.01
  GET /health: free
`;

test("a refused configuration is a 0 until one is taken, and the time is that of the one in use", async () => {
  await using site = await Site.create();
  const served = await site.serve(CONFIG, {});
  await served.untilReady();
  const isInUse = () => metricOf(served, "coinslot_config_last_reload_successful ");
  const since = () => metricOf(served, "coinslot_config_last_reload_success_timestamp_seconds ");
  const began = await since();
  expect([await isInUse(), Math.abs(began - Date.now() / 1000) < 60]).toEqual([1, true]);

  const file = join(site.folder, "gateway.yaml");
  const good = await readFile(file, "utf8");
  await writeFile(file, good.replace("$0.01", "one cent"));
  await fetch(`${served.adminUrl}/-/reload`, { method: "POST" });
  expect([await isInUse(), await since()]).toEqual([0, began]);

  await writeFile(file, good.replace("$0.01", "$0.02"));
  await fetch(`${served.adminUrl}/-/reload`, { method: "POST" });
  expect(await isInUse()).toBe(1);
  expect(await since()).toBeGreaterThan(began);
});
