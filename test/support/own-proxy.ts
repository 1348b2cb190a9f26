/**
 * A proxy that an operator would keep, with the recipe that we ship for it: nginx, HAProxy or Caddy as Debian
 * packages them, one process, in a folder of its own. Only the addresses of the recipe are replaced.
 */
import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { freePort } from "./free-port.ts";

const RECIPES = join(import.meta.dirname, "../../deploy/sidecar");
/** How long a start may take, milliseconds. */
const PATIENCE_MS = 15_000;

export const OWN_PROXIES = ["nginx", "haproxy", "caddy"] as const;

export type OwnProxyName = (typeof OWN_PROXIES)[number];

/** Whether the Debian package of that name is installed. */
export function hasProxy(name: OwnProxyName): boolean {
  return spawnSync("sh", ["-c", `command -v ${name}`], { env: ENVIRONMENT }).status === 0;
}

const ENVIRONMENT = { PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" };

export interface ProxyPlaces {
  readonly sidecarPort: number;
  readonly backendPort: number;
}

export interface OwnProxy extends AsyncDisposable {
  readonly name: OwnProxyName;
  readonly port: number;
  readonly url: string;
  readonly output: () => string;
}

const FILES: Readonly<Record<OwnProxyName, readonly string[]>> = {
  nginx: ["nginx.conf"],
  haproxy: ["haproxy.cfg", "coinslot.lua"],
  caddy: ["Caddyfile"],
};

/** Resolves when it accepts connections. */
export async function startOwnProxy(name: OwnProxyName, places: ProxyPlaces): Promise<OwnProxy> {
  const port = await freePort();
  const folder = await mkdtemp(join(tmpdir(), `coinslot-${name}-`));
  for (const file of FILES[name]) {
    await cp(join(RECIPES, file), join(folder, file));
    await substitute(join(folder, file), port, { ...places, folder });
  }
  const [command, ...args] = await commandOf(name, folder);
  const child = spawn(command ?? "", args, {
    cwd: folder,
    env: { ...ENVIRONMENT, HOME: folder, XDG_CONFIG_HOME: folder, XDG_DATA_HOME: folder },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (output += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (output += text));
  const close = async (): Promise<void> => {
    if (child.exitCode === null && child.signalCode === null) {
      // nginx's worker ends with its master only when that one is asked.
      child.kill(name === "nginx" ? "SIGTERM" : "SIGKILL");
      await once(child, "close");
    }
    await rm(folder, { recursive: true, force: true });
  };
  try {
    await untilOpen(child, port);
  } catch (cause) {
    await close();
    throw new Error(`${name} did not start: ${output}`, { cause });
  }
  const url = `http://127.0.0.1:${port}`;
  return { name, port, url, output: () => output, [Symbol.asyncDispose]: close };
}

async function substitute(
  path: string,
  port: number,
  places: ProxyPlaces & { readonly folder: string },
): Promise<void> {
  const text = await readFile(path, "utf8");
  const placed = text
    .replaceAll("127.0.0.1:8403", `127.0.0.1:${places.sidecarPort}`)
    .replaceAll("127.0.0.1:3000", `127.0.0.1:${places.backendPort}`)
    .replace("/etc/haproxy/", `${places.folder}/`)
    .replace("listen 8080;", `listen 127.0.0.1:${port};`)
    .replace("bind :8080", `bind 127.0.0.1:${port}`)
    .replace(/^:8080 \{/m, `http://127.0.0.1:${port}, http://:${port} {\n\tbind 127.0.0.1`);
  await writeFile(path, placed);
}

async function commandOf(name: OwnProxyName, folder: string): Promise<readonly string[]> {
  if (name === "haproxy") return ["haproxy", "-db", "-f", join(folder, "haproxy.cfg")];
  if (name === "caddy") {
    // No address for orders: several run beside each other.
    const file = join(folder, "Caddyfile");
    await writeFile(file, (await readFile(file, "utf8")).replace("\n{\n", "\n{\n\tadmin off\n"));
    return ["caddy", "run", "--config", file];
  }
  const main = join(folder, "main.conf");
  const kinds = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
  const temporary = kinds.map((kind) => `${kind}_temp_path ${join(folder, kind)};`);
  await writeFile(
    main,
    `daemon off; user root; pid ${join(folder, "nginx.pid")}; error_log stderr warn; worker_processes 1;
events { worker_connections 512; }
http { access_log off; ${temporary.join(" ")} include ${join(folder, "nginx.conf")}; }
`,
  );
  return ["nginx", "-p", folder, "-c", main];
}

async function untilOpen(child: ChildProcess, port: number): Promise<void> {
  const deadline = AbortSignal.timeout(PATIENCE_MS);
  while (child.exitCode === null && !deadline.aborted) {
    const socket = connect({ port, host: "127.0.0.1" });
    const isOpen = await once(socket, "connect").then(
      () => true,
      () => false,
    );
    socket.destroy();
    if (isOpen) return;
    await pause(25);
  }
  throw new Error("it never accepted a connection");
}
