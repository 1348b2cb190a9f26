/** What operators read of commands. */
import { expect, test } from "vitest";
import { Metrics } from "../../../src/telemetry/metrics.ts";

test("processes are read when somebody looks, and the rest is counted", async () => {
  const metrics = new Metrics("test");
  let processes = 1;
  const meter = metrics.commands.command("files", () => ({ processes, limit: 4 }));
  const lines = async () =>
    (await metrics.registry.metrics())
      .split("\n")
      .filter((line) => line.startsWith("coinslot_command_"));
  meter.begun();
  meter.begun();
  meter.ended("crashed");
  meter.refused("client");
  processes = 2;
  expect(await lines()).toEqual([
    'coinslot_command_processes{upstream="files"} 2',
    'coinslot_command_processes_limit{upstream="files"} 4',
    'coinslot_command_starts_total{upstream="files"} 2',
    'coinslot_command_ends_total{upstream="files",result="ended"} 0',
    'coinslot_command_ends_total{upstream="files",result="crashed"} 1',
    'coinslot_command_ends_total{upstream="files",result="failed"} 0',
    'coinslot_command_refusals_total{upstream="files",reason="client"} 1',
    'coinslot_command_refusals_total{upstream="files",reason="full"} 0',
    'coinslot_command_refusals_total{upstream="files",reason="failing"} 0',
  ]);
  // Of that name there is another one by now.
  const next = metrics.commands.command("files", () => ({ processes: 3, limit: 3 }));
  meter.retire();
  expect(await lines()).toContain('coinslot_command_processes{upstream="files"} 3');
  next.retire();
  expect((await lines()).join()).not.toContain("coinslot_command_processes");
});
