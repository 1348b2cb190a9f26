/** One balance that three replicas spend at once, each with several leases, on a real PostgreSQL; and some of them die. */
import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { isBalanced } from "../../../src/ledger/credit-entries.ts";
import type { Ledger } from "../../../src/ledger/ledger.ts";
import { creditsPot } from "../../../src/ledger/pots.ts";
import { networkOf } from "../../../src/x402/network.ts";
import { startPostgres, type PostgresServer } from "../../support/postgres.ts";
import { examplePayment, PAYER } from "../../unit/ledger/example-payment.ts";
import { SETTLEMENT, termsOf } from "../../unit/ledger/ledger-driver.ts";
import { Replicas, sql, until } from "./stage.ts";
import type { SpenderOrder } from "./spender-child.ts";

const CHILD = fileURLToPath(new URL("./spender-child.ts", import.meta.url));
const POT = creditsPot(networkOf("base-sepolia"), PAYER);
/** What a request costs, and how much of it may be lost with a process. */
const EACH = 10n;
const AT_RISK = 200n;
/** Sessions of the three replicas. */
const SESSIONS = [17, 17, 16];

let server: PostgresServer;
beforeAll(async () => {
  server = await startPostgres();
});
afterAll(async () => server.stop());

class Spender {
  readonly name: string;
  readonly #child: ChildProcess;
  readonly #file: string;

  constructor(order: Omit<SpenderOrder, "pot" | "each" | "atRisk">) {
    this.name = order.life;
    this.#file = order.file;
    this.#child = fork(CHILD);
    this.#child.send({ ...order, pot: POT, each: String(EACH), atRisk: String(AT_RISK) });
    onTestFinished(() => void this.#child.kill("SIGKILL"));
  }

  async spending(): Promise<void> {
    await once(this.#child, "message");
  }

  /** What was answered, atomic units. */
  get answered(): bigint {
    return BigInt(statSync(this.#file, { throwIfNoEntry: false })?.size ?? 0) * EACH;
  }

  /** In order. */
  async stop(): Promise<void> {
    const ended = once(this.#child, "exit");
    this.#child.send("stop");
    await ended;
  }

  async kill(): Promise<void> {
    const ended = once(this.#child, "exit");
    this.#child.kill("SIGKILL");
    await ended;
  }
}

async function stage(amount: bigint) {
  const url = await server.database();
  const replicas = new Replicas(url);
  onTestFinished(async () => replicas[Symbol.asyncDispose]());
  const ledger = await replicas.open("the shop");
  const { key, request } = examplePayment(1);
  const terms = termsOf({ request }, { fills: { pot: POT, amount } });
  await ledger.step(key, { kind: "claim", terms });
  await ledger.step(key, { kind: "settled", settlement: SETTLEMENT });
  const folder = mkdtempSync(join(tmpdir(), "coinslot-pots-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const spawn = async (sessions: readonly number[], name = "replica"): Promise<Spender[]> => {
    const spenders = sessions.map((count, number) => {
      const life = `${name} ${number}`;
      return new Spender({ url, life, sessions: count, file: join(folder, life) });
    });
    await Promise.all(spenders.map((each) => each.spending()));
    return spenders;
  };
  return { url, ledger, spawn };
}

/** As the books have it: routes have the names of replicas. */
async function writtenBy(url: string, { name }: Spender): Promise<bigint> {
  const [row] = await sql(
    url,
    "SELECT coalesce(sum(amount), 0)::text AS n FROM coinslot.closed_entries WHERE kind = 'credits used' AND route = $1",
    [name],
  );
  return BigInt(String(row?.["n"]));
}

async function isSpent(ledger: Ledger): Promise<boolean> {
  const { free = 0n, leased = 0n } = (await ledger.pots.balances([POT])).get(POT) ?? {};
  return free + leased < EACH;
}

it("fifty sessions at three replicas spend a balance once, to the last cent", async () => {
  const amount = 20_000n;
  const { url, ledger, spawn } = await stage(amount);
  const spenders = await spawn(SESSIONS);
  await until(() => isSpent(ledger), 40_000);
  await Promise.all(spenders.map((each) => each.stop()));
  const [sum] = await ledger.books.credits();
  expect(sum).toMatchObject({ bought: amount, used: amount, free: 0n, leased: 0n });
  for (const each of spenders) {
    expect(each.answered).toBeGreaterThan(0n);
    expect(await writtenBy(url, each)).toBe(each.answered);
  }
});

it("whoever is killed loses the seller no more than he risks, and the buyer nothing", async () => {
  const amount = 60_000n;
  const { url, ledger, spawn } = await stage(amount);
  const [first, second, third] = await spawn(SESSIONS);
  if (first === undefined || second === undefined || third === undefined) throw new Error("none");
  await until(async () => first.answered > 1_000n && second.answered > 1_000n);
  await first.kill();
  await until(async () => second.answered + third.answered > 20_000n, 40_000);
  await second.kill();
  const [fourth] = await spawn([20], "successor");
  if (fourth === undefined) throw new Error("none");
  await until(() => isSpent(ledger), 40_000);
  await Promise.all([third, fourth].map((each) => each.stop()));
  const [sum] = await ledger.books.credits();
  if (sum === undefined) throw new Error("there are no credits");
  expect(isBalanced(sum)).toBe(true);
  expect(sum).toMatchObject({ bought: amount, used: amount, free: 0n, leased: 0n });
  for (const each of [third, fourth]) expect(await writtenBy(url, each)).toBe(each.answered);
  for (const [each, sessions] of [
    [first, 17n],
    [second, 17n],
  ] as const) {
    const lost = each.answered - (await writtenBy(url, each));
    // Three leases, of which each may lose so much.
    expect(lost).toBeLessThanOrEqual(3n * AT_RISK);
    // An answer that waited for its debit when it was killed may be debited.
    expect(lost).toBeGreaterThanOrEqual(-sessions * EACH);
  }
});
