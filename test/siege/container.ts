/** What goes with the program in the container that we ship: how Node is started, what the kernel keeps, how much memory. */
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import { ROOT } from "../bench/report.ts";

/** Bytes. */
export const MEMORY_BYTES = 512 * 1024 * 1024;
/** What runs in it, once it is built. */
export const BUNDLE = join(ROOT, "dist/main.js");
/** Of Ethernet: with that of the loopback interface, 64 KiB, kernels keep megabytes where they keep kilobytes else. */
const MTU = 1_500;
const INSIDE = "COINSLOT_SIEGE_INSIDE";

/** Node's own arguments. */
export function nodeFlags(): readonly string[] {
  const file = readFileSync(join(ROOT, "Dockerfile"), "utf8");
  const entry = JSON.parse(/^ENTRYPOINT (\[.*\])$/m.exec(file)?.[1] ?? "[]") as string[];
  return entry.slice(1, -1);
}

/** Settings of the kernel, by name. */
function sysctls(): Readonly<Record<string, string>> {
  const text = readFileSync(join(ROOT, "deploy/compose.yaml"), "utf8");
  const { services } = parse(text, { merge: true }) as {
    services: { gateway: { sysctls: Record<string, string> } };
  };
  return services.gateway.sysctls;
}

/**
 * Runs this program again in a network of its own with those settings, where the system lets us, and ends with it.
 * What it returns says why it goes on in the machine's network; null: it is in its own.
 */
export function enterNetwork(): string | null {
  if (process.env[INSIDE] !== undefined) return null;
  const settings = Object.entries(sysctls()).map(([name, value]) => {
    return `echo '${value}' > /proc/sys/${name.replaceAll(".", "/")}`;
  });
  const script = [`ip link set lo mtu ${MTU} up`, ...settings, 'exec "$@"'].join(" && ");
  const inside = ["-n", "sh", "-c", script, "sh"];
  const { status } = spawnSync("unshare", [...inside, "true"]);
  if (status !== 0) return "no network of its own (it takes root, util-linux and iproute2)";
  const own = [process.execPath, ...process.execArgv, ...process.argv.slice(1)];
  const env = { ...process.env, [INSIDE]: "1" };
  const done = spawnSync("unshare", [...inside, ...own], { stdio: "inherit", env });
  process.exit(done.status ?? 1);
}
