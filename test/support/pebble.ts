/**
 * A real ACME authority on loopback: Pebble as Debian packages it, with a DNS server for which every name is this
 * machine. It forgets everything when it ends.
 */
import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { Agent, get } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { FIRST } from "./listener-tls.ts";
import { freePort } from "./free-port.ts";

/** How long it may take to answer, and the pause between two questions, milliseconds. */
const START_MS = 10_000;
const STEP_MS = 25;

/** Whether the tests that need it can run. */
export const HAS_PEBBLE = ["pebble", "pebble-challtestsrv"].every(
  (name) => spawnSync("which", [name]).status === 0,
);

export interface PebbleOptions {
  /** Where it looks, by http-01 and by tls-alpn-01. */
  readonly httpPort: number;
  readonly tlsPort: number;
  /** Of the certificates, seconds. Default: five years. */
  readonly lifeSeconds?: number;
  /** How many percent of the nonces it refuses, and how many of the names that were proven it forgets. Default: 5, and none. */
  readonly refusedNonces?: number;
}

export interface Pebble {
  readonly directory: string;
  /** File in PEM: who signed the certificate of its own server. */
  readonly ca: string;
  /** PEM: who signs what it gives. */
  root(): Promise<string>;
  /** What it has said. */
  readonly output: () => string;
  /** Ends it; {@link start} begins another one at the same place, which knows nobody. */
  stop(): Promise<void>;
  start(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

export async function startPebble(options: PebbleOptions): Promise<Pebble> {
  const folder = await mkdtemp(join(tmpdir(), "coinslot-pebble-"));
  const [port, management, dns, dnsManagement] = [
    await freePort(),
    await freePort(),
    await freePort(),
    await freePort(),
  ];
  const cert = join(folder, "cert.pem");
  const key = join(folder, "key.pem");
  const config = join(folder, "pebble.json");
  await writeFile(cert, FIRST.cert);
  await writeFile(key, FIRST.key);
  const { httpPort, tlsPort, lifeSeconds, refusedNonces = 5 } = options;
  const pebble = {
    listenAddress: `127.0.0.1:${port}`,
    managementListenAddress: `127.0.0.1:${management}`,
    certificate: cert,
    privateKey: key,
    httpPort,
    tlsPort,
    ...(lifeSeconds === undefined ? {} : { certificateValidityPeriod: lifeSeconds }),
  };
  await writeFile(config, JSON.stringify({ pebble }));
  const none = ["-http01", "", "-https01", "", "-tlsalpn01", "", "-defaultIPv6", ""];
  const names = spawn(
    "pebble-challtestsrv",
    [...none, "-dns01", `127.0.0.1:${dns}`, "-management", `127.0.0.1:${dnsManagement}`],
    { stdio: "ignore" },
  );
  let said = "";
  let authority: ChildProcess | undefined;
  const directory = `https://127.0.0.1:${port}/dir`;
  const stop = async (): Promise<void> => {
    if (authority !== undefined) await end(authority);
    authority = undefined;
  };
  const start = async (): Promise<void> => {
    authority = spawn("pebble", ["-config", config, "-dnsserver", `127.0.0.1:${dns}`], {
      env: {
        ...process.env,
        PEBBLE_VA_NOSLEEP: "1",
        PEBBLE_WFE_NONCEREJECT: String(refusedNonces),
        PEBBLE_AUTHZREUSE: "0",
      },
      stdio: ["ignore", "pipe", "pipe"],
    });
    for (const stream of [authority.stdout, authority.stderr]) {
      stream?.on("data", (chunk) => (said += String(chunk)));
    }
    await untilThere(directory);
  };
  await start();
  return {
    directory,
    ca: cert,
    root: () => read(`https://127.0.0.1:${management}/roots/0`),
    output: () => said,
    stop,
    start,
    async [Symbol.asyncDispose]() {
      await stop();
      await end(names);
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function untilThere(directory: string): Promise<void> {
  for (const untilMs = Date.now() + START_MS; ; await pause(STEP_MS)) {
    const answer = await read(directory).catch(() => undefined);
    if (answer !== undefined) return;
    if (Date.now() > untilMs) throw new Error("pebble never answered");
  }
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const closed = once(child, "exit");
  child.kill("SIGKILL");
  await closed;
}

function read(url: string): Promise<string> {
  const agent = new Agent({ ca: FIRST.cert, keepAlive: false });
  return new Promise((resolve, reject) => {
    const request = get(url, { agent }, (response) => {
      let text = "";
      response.on("data", (chunk) => (text += String(chunk)));
      response.on("end", () => resolve(text));
    });
    request.once("error", reject);
  });
}
