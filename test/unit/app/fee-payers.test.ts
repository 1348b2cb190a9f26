import type { ServerResponse } from "node:http";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import {
  FIRST_ANSWERS_MS,
  FIRST_RETRY_MS,
  KnownFeePayers,
  MAX_RETRY_MS,
  REFRESH_MS,
  SAME_MS,
  type FeePayerSources,
} from "../../../src/app/fee-payers.ts";
import { FacilitatorRouter } from "../../../src/facilitator/facilitator-router.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { Metrics } from "../../../src/telemetry/metrics.ts";
import { systemTime } from "../../../src/time/time.ts";
import { nobody, scripted, type Scripted } from "../facilitator/mesh-stage.ts";
import { openRemote } from "../facilitator/remote-stage.ts";
import {
  addressOf,
  FEE_PAYER,
  kindOf,
  NETWORK,
  OTHER_FEE_PAYER,
} from "../payments/sale/solana-payment.ts";
import { SteppedTime } from "./stepped-time.ts";

/** Time that a test moves, with pauses that end when it says so. */
class Clock extends SteppedTime {
  nowMs = 1_700_000_000_000;
  override readonly now = (): number => this.nowMs;
}

/** What a facilitator answers that tells these accounts. */
const telling = (...feePayers: readonly string[]) => ({
  status: 200,
  body: { kinds: feePayers.map((each) => kindOf(each)) },
});

type Setup = Partial<Pick<FeePayerSources, "networks" | "mechanisms">>;

function stage(facilitators: readonly { readonly url: string }[], setup: Setup = {}) {
  const log: Record<string, unknown>[] = [];
  const write = (line: string): void => void log.push(JSON.parse(line));
  const logger = createLogger({ level: "info", format: "json", destination: { write } });
  const telemetry = { logger, metrics: new Metrics("test") };
  const remotes = facilitators.map(({ url }) => openRemote(url).remote);
  const observers = new Map();
  const options = { embedded: undefined, remotes, observers, telemetry, time: systemTime };
  const router = new FacilitatorRouter(options);
  const time = new Clock();
  const sources = {
    networks: [NETWORK],
    mechanisms: [],
    router,
    remotes,
    telemetry,
    time,
  } as const;
  const feePayers = new KnownFeePayers({ ...sources, ...setup });
  onTestFinished(() => feePayers.stop());
  return { feePayers, time, log, router };
}

/** Lets the next round happen, and tells the pause before it, milliseconds. */
async function nextRound(time: SteppedTime): Promise<number> {
  await vi.waitFor(() => expect(time.pauses).toHaveLength(1));
  const [pauseMs = 0] = time.pauses;
  time.wakeAll();
  return pauseMs;
}

const asked = (...all: readonly Scripted[]) => all.map((each) => each.count("/supported"));

describe("fee payers of facilitators elsewhere", () => {
  test("are known once the start is over", async () => {
    const facilitator = await scripted(telling(FEE_PAYER));
    const { feePayers, log } = stage([facilitator]);
    expect(feePayers.offered(NETWORK)).toBeUndefined();
    expect(feePayers.elsewhere()).toEqual([{ network: NETWORK, address: null }]);
    await feePayers.start();
    expect(feePayers.offered(NETWORK)).toBe(FEE_PAYER);
    expect(feePayers.elsewhere()).toEqual([{ network: NETWORK, address: FEE_PAYER }]);
    expect(feePayers.isKnown(NETWORK, FEE_PAYER)).toBe(true);
    expect(feePayers.isKnown(NETWORK, OTHER_FEE_PAYER)).toBe(false);
    expect(log).toEqual([]);
  });

  test("do not hold up the start for long, and count as soon as they are told", async () => {
    const waiting: ServerResponse[] = [];
    const slow = await scripted({ raw: (response) => void waiting.push(response) });
    const { feePayers, time } = stage([slow]);
    const limits: number[] = [];
    time.timeout = (ms) => {
      limits.push(ms);
      return AbortSignal.timeout(ms === FIRST_ANSWERS_MS ? 20 : ms);
    };
    await feePayers.start();
    expect(feePayers.offered(NETWORK)).toBeUndefined();
    expect(limits).toContain(FIRST_ANSWERS_MS);
    const { revision } = feePayers;
    await vi.waitFor(() => expect(asked(slow)).toEqual([1]));
    waiting[0]?.end(JSON.stringify({ kinds: [kindOf(FEE_PAYER)] }));
    // Without a moment's delay for those who have asked before.
    await vi.waitFor(() => expect(feePayers.revision).toBe(revision + 1));
    expect(feePayers.offered(NETWORK)).toBe(FEE_PAYER);
  });

  test("are asked for again every minute, and what was told before stays known", async () => {
    const facilitator = await scripted(telling(FEE_PAYER));
    const { feePayers, time } = stage([facilitator]);
    await feePayers.start();
    const { revision } = feePayers;
    expect(await nextRound(time)).toBe(REFRESH_MS);
    await vi.waitFor(() => expect(time.pauses).toEqual([REFRESH_MS]));
    expect(feePayers.revision).toBe(revision);

    facilitator.reply = telling(OTHER_FEE_PAYER);
    await nextRound(time);
    await vi.waitFor(() => expect(feePayers.revision).toBe(revision + 1));
    expect(feePayers.offered(NETWORK)).toBe(OTHER_FEE_PAYER);
    expect(feePayers.isKnown(NETWORK, FEE_PAYER)).toBe(true);
    expect(asked(facilitator)).toEqual([3]);
  });

  test("are asked for more and more seldom while nobody tells one, and the log says so once", async () => {
    const facilitator = await scripted({ status: 503 });
    const { feePayers, time, log } = stage([facilitator]);
    await feePayers.start();
    const pauses: number[] = [];
    for (let round = 0; round < 6; round += 1) pauses.push(await nextRound(time));
    expect(pauses).toEqual([1, 2, 4, 8, 15, 15].map((times) => times * FIRST_RETRY_MS));
    expect(pauses.at(-1)).toBe(MAX_RETRY_MS);
    expect(log.map(({ level, facilitator, network }) => [level, facilitator ?? network])).toEqual([
      ["warn", facilitator.url],
      ["warn", NETWORK],
    ]);
    expect(String(log[0]?.["msg"])).toContain("not offered");
    expect(String(log[1]?.["msg"])).toContain("nothing is sold");

    await vi.waitFor(() => expect(time.pauses).toHaveLength(1));
    facilitator.reply = telling(FEE_PAYER);
    await nextRound(time);
    expect(await nextRound(time)).toBe(REFRESH_MS);
    expect(log.at(-1)).toMatchObject({ level: "info", network: NETWORK, feePayer: FEE_PAYER });
    await vi.waitFor(() => expect(time.pauses).toHaveLength(1));
    facilitator.reply = telling();
    await nextRound(time);
    expect(await nextRound(time)).toBe(FIRST_RETRY_MS);
    expect(log.at(-1)).toMatchObject({ level: "warn", network: NETWORK });
  });

  test("are offered as told before while their facilitator does not answer", async () => {
    const facilitator = await scripted(telling(FEE_PAYER));
    const { feePayers, time, log } = stage([facilitator]);
    await feePayers.start();
    await vi.waitFor(() => expect(time.pauses).toHaveLength(1));
    facilitator.reply = { status: 500 };
    await nextRound(time);
    expect(await nextRound(time)).toBe(REFRESH_MS);
    expect(feePayers.offered(NETWORK)).toBe(FEE_PAYER);
    expect(log).toMatchObject([{ level: "warn", facilitator: facilitator.url }]);
  });

  test("are asked of all, since a payment may name anybody's", async () => {
    const all = [await scripted(telling(FEE_PAYER)), await scripted(telling(OTHER_FEE_PAYER))];
    const { feePayers, log } = stage([await nobody(), ...all]);
    await feePayers.start();
    expect(feePayers.offered(NETWORK)).toBe(FEE_PAYER);
    expect(feePayers.isKnown(NETWORK, OTHER_FEE_PAYER)).toBe(true);
    expect(log).toHaveLength(1);
  });

  test("are not asked for any more once it is stopped, even in the middle of a question", async () => {
    const silent = await scripted({ raw: () => {} });
    const { feePayers, time, log } = stage([silent]);
    const starting = feePayers.start();
    await vi.waitFor(() => expect(asked(silent)).toEqual([1]));
    await feePayers.stop();
    await starting;
    time.wakeAll();
    await new Promise(setImmediate);
    expect([asked(silent), log]).toEqual([[1], []]);
  });

  test("are asked for in silence, and hold up nothing, where only others bring payments", async () => {
    const [silent, down] = [await scripted({ raw: () => {} }), await nobody()];
    const { feePayers, log, time } = stage([silent, down], { networks: [] });
    await feePayers.start();
    await vi.waitFor(() => expect(asked(silent)).toEqual([1]));
    await feePayers.stop();
    expect([log, time.pauses]).toEqual([[], []]);
  });

  test("whose facilitators fail are missed by nobody where nothing is sold", async () => {
    const { feePayers, log, time } = stage([await nobody()], { networks: [] });
    await feePayers.start();
    expect(await nextRound(time)).toBe(REFRESH_MS);
    expect(log).toEqual([]);
  });

  test("are not asked for where nothing depends on them", async () => {
    const { feePayers, time } = stage([]);
    await feePayers.start();
    expect(time.pauses).toEqual([]);
    expect(feePayers.revision).toBe(feePayers.revision);
  });
});

const mechanism = (feePayer: () => string) => ({
  network: NETWORK as "solana-devnet",
  accounts: [FEE_PAYER, OTHER_FEE_PAYER],
  get kind() {
    return kindOf(feePayer());
  },
});

describe("fee payers of our own", () => {
  test("are offered as the mechanism tells, and all of them are known", async () => {
    let preferred = FEE_PAYER;
    const { feePayers, time } = stage([], { mechanisms: [mechanism(() => preferred)] });
    expect(feePayers.offered(NETWORK)).toBe(FEE_PAYER);
    const { revision } = feePayers;
    time.nowMs += SAME_MS;
    expect(feePayers.revision).toBe(revision);
    preferred = OTHER_FEE_PAYER;
    time.nowMs += SAME_MS - 1;
    expect(feePayers.revision).toBe(revision);
    time.nowMs += 1;
    expect(feePayers.revision).toBe(revision + 1);
    expect(feePayers.revision).toBe(revision + 1);
    expect(feePayers.offered(NETWORK)).toBe(OTHER_FEE_PAYER);
    const known = [FEE_PAYER, OTHER_FEE_PAYER, addressOf(9)].map((address) =>
      feePayers.isKnown(NETWORK, address),
    );
    expect(known).toEqual([true, true, false]);
    expect(feePayers.isKnown("solana", FEE_PAYER)).toBe(false);
  });

  test("come before those of facilitators elsewhere, whose answers mean nothing there", async () => {
    const facilitator = await scripted(telling(addressOf(9)));
    const { feePayers, log } = stage([facilitator], { mechanisms: [mechanism(() => FEE_PAYER)] });
    await feePayers.start();
    expect(feePayers.offered(NETWORK)).toBe(FEE_PAYER);
    expect(feePayers.isKnown(NETWORK, addressOf(9))).toBe(false);
    expect([feePayers.elsewhere(), log]).toEqual([[], []]);
  });
});
