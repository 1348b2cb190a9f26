/** HAProxy as a measure: one thread, no log, connections kept and shared for as long as the bench runs. */
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { startCommand, type Running } from "../process.ts";
import { freePort } from "../../support/free-port.ts";

export const HAPROXY_MISSING =
  "HAProxy is not installed, so its rows are left out: apt-get install -y haproxy";

/** `haproxy 2.6.12`, or null where it is not installed. */
export function haproxyVersion(): string | null {
  const { stdout, error } = spawnSync("haproxy", ["-v"], { encoding: "utf8" });
  if (error !== undefined) return null;
  const version = /version ([\d.]+)/.exec(stdout)?.[1];
  return version === undefined ? null : `haproxy ${version}`;
}

export async function startHaproxy(folder: string, backend: string): Promise<Running> {
  const port = await freePort();
  const file = join(folder, "haproxy.cfg");
  writeFileSync(
    file,
    `global
  nbthread 1
  maxconn 4096
defaults
  mode http
  timeout connect 5s
  timeout client 300s
  timeout server 300s
frontend front
  bind 127.0.0.1:${port}
  default_backend back
backend back
  http-reuse always
  server backend ${new URL(backend).host}
`,
  );
  return startCommand({
    command: "haproxy",
    args: ["-db", "-q", "-f", file],
    serves: `http://127.0.0.1:${port}`,
  });
}
