import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { createInterface } from "node:readline";
import { describe, expect, onTestFinished, test } from "vitest";
import { group, type Group } from "./backend-stage.ts";
import { buy } from "./shop.ts";
import { send } from "./stage.ts";

const SCRIPT = new URL("../../support/killable-backend.ts", import.meta.url);

interface Killable {
  readonly origin: string;
  readonly child: ChildProcess;
  kill(): Promise<void>;
}

async function killable(): Promise<Killable> {
  const child = spawn(process.execPath, [fileURLToPath(SCRIPT)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const kill = async (): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, "exit");
    child.kill("SIGKILL");
    await exited;
  };
  onTestFinished(kill);
  const [port] = (await once(createInterface(child.stdout), "line")) as [string];
  return { origin: `http://127.0.0.1:${port}`, child, kill };
}

/** So many clients ask one after another until told to stop; every answer, or how it failed. */
function load({ shop }: Group, clients: number, sent: Parameters<typeof send>[1] = {}) {
  const answers: (number | string)[] = [];
  const state = { isOver: false };
  const ask = async (): Promise<void> => {
    while (!state.isOver) {
      const answer = await send(shop.port, { path: "/free", ...sent }).catch(String);
      answers.push(typeof answer === "string" ? answer : answer.status);
    }
  };
  const all = Promise.all(Array.from({ length: clients }, ask));
  const stop = async (): Promise<void> => {
    state.isOver = true;
    await all;
  };
  return { answers, stop };
}

describe("one of two targets is killed under load", () => {
  test("and no client gets to see it", async () => {
    const [first, second] = [await killable(), await killable()];
    const of = await group([first, second]);
    const { answers, stop } = load(of, 16);
    await expect.poll(() => answers.length, { timeout: 10_000 }).toBeGreaterThan(300);
    await first.kill();
    const after = answers.length;
    await expect.poll(() => answers.length, { timeout: 10_000 }).toBeGreaterThan(after + 500);
    await stop();
    expect(answers.filter((answer) => answer !== 200)).toEqual([]);
  });

  test("also where connect failures are all that is tried again, and nothing was sent", async () => {
    const [first, second] = [await killable(), await killable()];
    const retry = { attempts: 2, methods: [], on: ["connect-failure"] } as const;
    const of = await group([first, second], { retry });
    expect((await buy(of.shop, {}, 1)).status).toBe(200);
    await first.kill();
    for (let number = 2; number <= 8; number += 1) {
      const answer = await buy(of.shop, { method: "POST", body: ["x"] }, number);
      expect([number, answer.status]).toEqual([number, 200]);
    }
    expect(of.shop.facilitator.settled).toHaveLength(8);
  });
});
