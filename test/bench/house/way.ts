/** The way of a paid GET through the sources: which of their functions V8 has seen called while one was served. */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { WebSocket } from "ws";
import { encodePaymentHeader } from "../../../src/x402/header.ts";
import { startChain } from "../../support/chain.ts";
import { freshAccount, requirementsFor, signPayment } from "../../support/payer.ts";
import { PAY_TO } from "../contenders/wares.ts";
import { startProgram } from "../process.ts";

export interface Way {
  readonly functions: number;
  readonly files: number;
  readonly calls: number;
  readonly recoveries: number;
}

/** Payments before the one that is counted: what is made once is made then. */
const WARM_UPS = 5;

interface Coverage {
  readonly result: readonly {
    readonly url: string;
    readonly functions: readonly {
      readonly functionName: string;
      readonly ranges: readonly { readonly count: number }[];
    }[];
  }[];
}

/** @param root of a checkout with its packages */
export async function wayOf(root: string): Promise<Way> {
  await using closing = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), "coinslot-way-"));
  closing.defer(() => rm(folder, { recursive: true, force: true }));
  const chain = await startChain();
  closing.defer(() => chain.stop());
  const backend = await startProgram(new URL("../contenders/backend.ts", import.meta.url));
  closing.defer(() => backend.stop());
  const [payer, signer] = [freshAccount(), freshAccount()];
  await chain.fund(payer.address, 1_000_000n);
  await chain.fund(signer.address, 0n, 10n ** 20n);
  const network = chain.network.name;
  const file = join(folder, "gateway.yaml");
  const config = `
listen: 127.0.0.1:0
publicUrl: http://localhost:8402
upstream: ${backend.url}
payTo: "${PAY_TO}"
accept: [${network}]
facilitator:
  embedded:
    networks:
      ${network}: { rpc: ["${chain.rpcUrl}"], signers: [env:SIGNER] }
unmatched: deny
store: sqlite:${folder}/ledger.db
routes:
  GET /weather: $0.01
`;
  await writeFile(file, config);
  const words = ["--inspect=127.0.0.1:0", join(root, "src/main.ts"), "serve", file];
  const gateway = spawn(join(root, "node_modules/.bin/node"), words, {
    env: { PATH: process.env["PATH"], SIGNER: signer.privateKey },
    stdio: ["ignore", "pipe", "pipe"],
  });
  closing.defer(async () => {
    gateway.kill("SIGKILL");
    await once(gateway, "exit");
  });
  const [url, inspector] = await Promise.all([
    said(gateway, /^ *gateway +(http:\/\/[^/\s]+)/m),
    said(gateway, /listening on (ws:\S+)/),
  ]);
  const ask = await inspect(inspector);
  const requirements = requirementsFor(network, { payTo: PAY_TO });
  const buy = async (): Promise<void> => {
    const payment = await signPayment({ account: payer.account, requirements });
    const headers = { "x-payment": encodePaymentHeader(payment) };
    const { status } = await fetch(`${url}/weather`, { headers });
    if (status !== 200) throw new Error(`a paid GET was answered ${status}`);
  };
  await ask("Profiler.enable");
  await ask("Profiler.startPreciseCoverage", { callCount: true, detailed: false });
  for (let count = 0; count < WARM_UPS; count += 1) await buy();
  await ask("Profiler.takePreciseCoverage");
  await buy();
  const { result } = (await ask("Profiler.takePreciseCoverage")) as Coverage;
  return counted(result.filter((script) => script.url.startsWith(`file://${root}/src/`)));
}

function counted(scripts: Coverage["result"]): Way {
  const called = scripts.flatMap(({ url, functions }) =>
    functions.map(({ functionName: name, ranges }) => ({
      url,
      name,
      count: ranges[0]?.count ?? 0,
    })),
  );
  const used = called.filter(({ count, name }) => count > 0 && name !== "");
  const recovering = used.filter(
    ({ url, name }) => url.endsWith("/evm/signature.ts") && name === "recover",
  );
  return {
    functions: used.length,
    files: new Set(used.map(({ url }) => url)).size,
    calls: used.reduce((sum, { count }) => sum + count, 0),
    // Each goes through one function of that name for all builds, and one of the build in use.
    recoveries: Math.max(0, ...recovering.map(({ count }) => count)),
  };
}

/** Waits for what a child says on either stream. */
async function said(child: ChildProcess, pattern: RegExp): Promise<string> {
  const found = Promise.withResolvers<string>();
  let output = "";
  const hear = (text: Buffer): void => {
    output += text.toString();
    const [, match] = pattern.exec(output) ?? [];
    if (match !== undefined) found.resolve(match);
  };
  child.stdout?.on("data", hear);
  child.stderr?.on("data", hear);
  child.once("exit", () => found.reject(new Error(`the gateway did not start: ${output}`)));
  return found.promise;
}

type Ask = (method: string, params?: object) => Promise<unknown>;

/** The inspector's protocol, as far as it is needed here: a question has one answer. */
async function inspect(url: string): Promise<Ask> {
  const socket = new WebSocket(url);
  await once(socket, "open");
  const waiting = new Map<number, (value: unknown) => void>();
  socket.on("message", (text: Buffer) => {
    const { id, result } = JSON.parse(text.toString());
    waiting.get(id)?.(result);
  });
  let last = 0;
  return (method, params = {}) => {
    last += 1;
    const id = last;
    const { promise, resolve } = Promise.withResolvers<unknown>();
    waiting.set(id, resolve);
    socket.send(JSON.stringify({ id, method, params }));
    return promise;
  };
}
