/**
 * `coinslot try URL`: the gateway before somebody's own backend, on a local chain and with a buyer who has money, so that
 * the first sale takes a minute and no account anywhere.
 */
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { start, type Running } from "../app.ts";
import { freshKey } from "../buyer/buyer-key.ts";
import { formatProblems, loadConfig } from "../config/config.ts";
import { startLocalChain, type LocalChain } from "../trial/local-chain.ts";
import { formatAmount } from "../x402/amount.ts";
import { messageOf } from "../x402/result.ts";
import { pay } from "./pay/pay.ts";
import { toJson } from "./payments/payment-text.ts";
import { fail, say, wantsColor } from "./terminal.ts";

export interface TryOptions {
  readonly route?: readonly string[];
  readonly price: string;
  readonly once?: boolean;
  readonly json?: boolean;
}

const NETWORK = "base-sepolia";
/** What the buyer has, and what may be paid for the one purchase, atomic units of USDC. */
const PURSE = 5_000_000n;
/** Wei that the account has which pays for gas. */
const GAS = 10n ** 18n;
/** Longest silence of the backend, milliseconds. */
const PATIENCE_MS = 30_000;
const USAGE = 2;

/** Resolves with the exit code. */
export async function tryOut(address: string, options: TryOptions): Promise<number> {
  const url = URL.canParse(address) ? new URL(address) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol) || url.username !== "") {
    return fail("try", "the URL of a backend looks like http://localhost:3000/weather", USAGE);
  }
  await using closing = new AsyncDisposableStack();
  const stop = listenForEnd(closing);
  try {
    return await sellAndBuy(url, { ...options, stop }, closing);
  } catch (cause) {
    return fail("try", messageOf(cause));
  }
}

const ENDED = "it was ended before it was done";

/** Aborts with the first signal to end, which leaves nothing behind; a second one ends the process at once. */
function listenForEnd(closing: AsyncDisposableStack): AbortSignal {
  const stop = new AbortController();
  const end = (): void => stop.abort();
  for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.once(name, end);
    closing.defer(() => void process.off(name, end));
  }
  return stop.signal;
}

async function sellAndBuy(
  url: URL,
  { stop, ...options }: TryOptions & { readonly stop: AbortSignal },
  closing: AsyncDisposableStack,
): Promise<number> {
  const folder = await mkdtemp(join(tmpdir(), "coinslot-try-"));
  closing.defer(() => rm(folder, { recursive: true, force: true }));
  say("a local chain that stands in for Base Sepolia, with Circle's USDC contract");
  const chain = await startLocalChain({ network: NETWORK });
  closing.defer(() => chain.stop());
  if (stop.aborted) return fail("try", ENDED);
  const [buyer, seller, signer] = [freshKey("evm"), freshKey("evm"), freshKey("evm")];
  await chain.fund(hex(buyer.address), PURSE);
  await chain.fund(hex(signer.address), 0n, GAS);
  const keyFile = join(folder, "buyer.key");
  const config = join(folder, "gateway.yaml");
  const [port, adminPort] = [await preferPort(8402), await preferPort(9402)];
  const publicUrl = `http://localhost:${port}`;
  const owner = { mode: 0o600 };
  await writeFile(keyFile, buyer.text, owner);
  await writeFile(join(folder, "signer.key"), signer.text, owner);
  const facts = { port, adminPort, publicUrl, payTo: seller.address, rpcUrl: chain.rpcUrl };
  await writeFile(config, configText(url, options, facts), owner);

  say(`the gateway before ${url.origin}`);
  const running = await open(config);
  if (running === undefined) return 1;
  closing.defer(() => running.close({ atOnce: true }));
  if (stop.aborted) return fail("try", ENDED);

  const bought = publicUrl + url.pathname + url.search;
  const key = `file:${keyFile}`;
  const more = `coinslot pay '${bought}' --key ${key} --yes`;
  say(`the buyer, who has ${formatAmount(PURSE, 6)} USDC and no gas, buys ${bought}`);
  const code = await pay(bought, {
    key,
    yes: true,
    max: { kind: "units", amount: PURSE, written: `${formatAmount(PURSE, 6)} USDC` },
    keep: folder,
    timeout: PATIENCE_MS,
    ...(options.json && { output: join(folder, "answer") }),
  });
  if (stop.aborted) return fail("try", ENDED);
  const paid = await chain.balanceOf(hex(seller.address));
  const sold = `${formatAmount(paid, 6)} USDC`;
  say(
    code === 0 && paid > 0n
      ? `sold: ${seller.address} was paid ${sold}`
      : `not sold: see above; the payee has ${sold}`,
  );
  const adminUrl = `http://127.0.0.1:${adminPort}`;
  if (options.json) {
    const told = { bought, code, paidAtomic: String(paid), buyAgain: more, publicUrl, adminUrl };
    process.stdout.write(toJson({ ...told, rpcUrl: chain.rpcUrl, config }));
  }
  if (options.once) return code === 0 && paid > 0n ? 0 : 1;
  suggest(more, { publicUrl, adminUrl, config, chain });
  if (!stop.aborted) await once(stop, "abort");
  return 0;
}

/** Undefined where the file is refused, which has been told. */
async function open(file: string): Promise<Running | undefined> {
  const loaded = await loadConfig(file);
  if (!loaded.ok) {
    const color = wantsColor(process.stderr);
    say(formatProblems(loaded.problems, loaded.text, { color }).trimEnd());
    return undefined;
  }
  return start(loaded.config, "try", { read: loaded });
}

interface Facts {
  readonly port: number;
  readonly adminPort: number;
  readonly publicUrl: string;
  readonly payTo: string;
  readonly rpcUrl: string;
}

/** JSON is YAML. */
function configText(url: URL, { route = ["/*"], price }: TryOptions, facts: Facts): string {
  const { port, adminPort, publicUrl, payTo, rpcUrl } = facts;
  return JSON.stringify({
    listen: `127.0.0.1:${port}`,
    publicUrl,
    upstream: url.origin,
    admin: `127.0.0.1:${adminPort}`,
    store: "sqlite:./ledger.db",
    logging: { level: "warn" },
    // Whoever presses Ctrl-C does not wait for a backend.
    shutdown: "1s",
    payTo,
    accept: [NETWORK],
    facilitator: {
      embedded: { networks: { [NETWORK]: { rpc: [rpcUrl], signers: ["file:signer.key"] } } },
    },
    unmatched: "deny",
    routes: Object.fromEntries(route.map((each) => [each, price])),
  });
}

function suggest(
  more: string,
  at: Pick<Facts, "publicUrl"> & {
    readonly adminUrl: string;
    readonly config: string;
    readonly chain: LocalChain;
  },
): void {
  const { publicUrl, adminUrl, config, chain } = at;
  say(`
It stays up until Ctrl-C:
  ${more}
  curl -i ${publicUrl}/        what it costs
  ${publicUrl}/                the page that sells to people
  ${adminUrl}/payments      each request, step by step
  ${config}   the configuration, which goes when this ends
  ${chain.rpcUrl}   the chain, id ${chain.chainId}, USDC at ${chain.asset}
`);
}

function hex(address: string): `0x${string}` {
  return `0x${address.slice(2)}`;
}

/** The wanted port of loopback where it is free, else any. */
async function preferPort(wanted: number): Promise<number> {
  for (const port of [wanted, 0]) {
    const server = createServer();
    try {
      await once(server.listen(port, "127.0.0.1"), "listening");
    } catch {
      continue;
    }
    const opened = server.address();
    server.close();
    if (typeof opened === "object" && opened !== null) return opened.port;
  }
  throw new Error("no port is free");
}
