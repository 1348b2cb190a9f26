/**
 * Rolling restarts: gateways on one PostgreSQL are stopped with SIGTERM and started again, one after the
 * other, behind a balancer that believes `/readyz` and nothing else, while customers fetch what is free and
 * buy what is not. No request may fail, not even once.
 */
import { setTimeout as pause } from "node:timers/promises";
import { Agent } from "undici";
import { PAYMENT_HEADERS } from "../../src/x402/header.ts";
import { inHeader, VERSIONS } from "../support/buyer.ts";
import { startChain } from "../support/chain.ts";
import { freshAccount, signPayment } from "../support/payer.ts";
import { startPostgres } from "../support/postgres.ts";
import { configuration, keysOf, offerOf } from "./configuration.ts";
import { Random } from "../simulation/random.ts";
import { Replicas } from "./replicas.ts";
import { goodsOf, startShop } from "./shop.ts";

const REPLICAS = 2;
const BROWSERS = 8;
const BUYERS = 4;
/** How often the balancer asks each gateway whether it is ready, milliseconds. */
const CHECK_MS = 100;
/** How long a gateway goes on after readiness is red, milliseconds: several checks of the balancer. */
const DELAY_MS = 500;

export interface RollingOptions {
  readonly restarts: number;
  readonly say: (line: string) => void;
}

export interface RollingReport {
  readonly counts: Readonly<Record<string, number>>;
  readonly failures: readonly string[];
  readonly logs: readonly string[];
}

export async function runRolling({ restarts, say }: RollingOptions): Promise<RollingReport> {
  await using stage = new AsyncDisposableStack();
  const chance = new Random(1);
  const chain = stage.use(await startChain({ blockTime: 1 }));
  const postgres = stage.use(await startPostgres());
  const shop = stage.use(await startShop(0, chance, false));
  const payee = freshAccount().address;
  const signers = Array.from({ length: REPLICAS }, freshAccount);
  for (const { address } of signers) await chain.fund(address, 0n, 10n ** 20n);
  const payer = freshAccount();
  await chain.fund(payer.address, 10n ** 12n);
  const places = { upstream: shop.url, rpc: chain.rpcUrl, payee };
  const free = `  GET /free/:id: free\nshutdown: { within: 20s, delay: ${DELAY_MS}ms }\n`;
  const replicas = stage.use(
    await Replicas.start({
      count: REPLICAS,
      yaml: configuration(chain, signers, places).replace(/^shutdown: .*\n/m, "") + free,
      env: keysOf(signers, freshAccount()),
      store: postgres.url,
    }),
  );
  const agent = new Agent({ keepAliveTimeout: 30_000 });
  stage.defer(() => agent.close());
  const balancer = new Balancer(replicas);
  stage.defer(() => balancer.stop());
  await balancer.start();

  const failures: string[] = [];
  const counts: Record<string, number> = { "SIGTERM restarts": 0 };
  const next = (what: string): number => (counts[what] = (counts[what] ?? 0) + 1);
  const over = new AbortController();
  const fetchItem = async (path: string, headers: Record<string, string>): Promise<void> => {
    const origin = balancer.pick();
    const item = path.split("/").at(-1) ?? "";
    try {
      const answer = await agent.request({ origin, path, method: "GET", headers });
      const text = await answer.body.text();
      if (answer.statusCode === 200 && text === goodsOf(item)) return;
      failures.push(`${path}: ${answer.statusCode} ${text.slice(0, 200)}`);
    } catch (cause) {
      failures.push(`${path} at ${origin}: ${String(cause)}`);
    }
  };
  const browse = async (): Promise<void> => {
    while (!over.signal.aborted) {
      await fetchItem(`/free/${next("free requests")}`, {});
      await pause(chance.between(0, 20));
    }
  };
  const requirements = offerOf(chain, payee);
  const shopping = async (): Promise<void> => {
    while (!over.signal.aborted) {
      const paymentPayload = await signPayment({ account: payer.account, requirements });
      const number = next("purchases");
      const version = VERSIONS[number % VERSIONS.length] ?? VERSIONS[0];
      const header = inHeader({ paymentPayload, paymentRequirements: requirements }, version);
      await fetchItem(`/items/${number}`, { [PAYMENT_HEADERS[version]]: header });
      next(`purchases in version ${version}`);
    }
  };
  const customers = [
    ...Array.from({ length: BROWSERS }, browse),
    ...Array.from({ length: BUYERS }, shopping),
  ];
  for (let restart = 1; restart <= restarts; restart += 1) {
    const code = await replicas.restart(replicas.sites[restart % REPLICAS]);
    if (code !== 0) failures.push(`a gateway ended with ${code} after SIGTERM`);
    counts["SIGTERM restarts"] = restart;
    await balancer.untilAllReady();
    if (restart % 10 === 0) say(`${restart} of ${restarts} restarts, ${failures.length} failures`);
  }
  over.abort();
  await Promise.all(customers);
  await replicas.stop();
  return { counts, failures, logs: replicas.logs };
}

/** Sends requests only where the last answer of `/readyz` was 200. */
class Balancer {
  readonly #replicas: Replicas;
  readonly #ready = new Set<number>();
  #timer: NodeJS.Timeout | undefined;
  #turn = 0;

  constructor(replicas: Replicas) {
    this.#replicas = replicas;
  }

  async start(): Promise<void> {
    await this.#check();
    this.#timer = setInterval(() => void this.#check(), CHECK_MS);
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  pick(): string {
    const ready = [...this.#ready];
    this.#turn += 1;
    return `http://127.0.0.1:${ready[this.#turn % ready.length] ?? 0}`;
  }

  async untilAllReady(): Promise<void> {
    while (this.#ready.size < this.#replicas.sites.length) await pause(CHECK_MS);
  }

  async #check(): Promise<void> {
    await Promise.all(
      this.#replicas.sites.map(async ({ adminUrl, port }) => {
        const answer = await fetch(`${adminUrl}/readyz`).catch(() => undefined);
        await answer?.body?.cancel();
        if (answer?.status === 200) this.#ready.add(port);
        else this.#ready.delete(port);
      }),
    );
  }
}
