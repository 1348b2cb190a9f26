/** One use for one request: of whose pot it is taken, when it is given back, and what is said of what is left. */
import { describe, expect, test } from "vitest";
import {
  CountedUses,
  type CountedAsking,
  type CountedUse,
  type NoUse,
} from "../../../src/gateway/counted.ts";
import type { Delivery } from "../../../src/gateway/upstream/upstream.ts";
import { usesPot } from "../../../src/ledger/ledger.ts";
import { PotLeases } from "../../../src/payments/credits/pot-leases.ts";
import { systemTime } from "../../../src/time/time.ts";
import type { PaymentKey } from "../../../src/x402/payment-key.ts";
import type { ProvenAccount } from "../../../src/x402/session.ts";
import { MemoryStore } from "../../support/memory-ledger.ts";
import { potsIn } from "../../support/memory-pots.ts";
import { silentTelemetry } from "../../simulation/silent-telemetry.ts";

const DAY_MS = 86_400_000;
const { logger } = silentTelemetry(undefined);
const KEY = "evm:base-sepolia:one" as PaymentKey;
const ALICE: ProvenAccount = { address: `0x${"Aa".repeat(20)}`, network: "base", hasKey: true };

class Stage {
  readonly store = new MemoryStore();
  readonly leases = this.leasesOf("one");
  nowMs = Math.floor(systemTime.now() / DAY_MS) * DAY_MS + 1_000;
  readonly uses = new CountedUses(this.leases, () => this.nowMs);

  leasesOf(life: string): PotLeases {
    const pots = potsIn(this.store, systemTime, life);
    return new PotLeases({ pots, atRisk: () => 0n, time: systemTime, logger });
  }
}

function asking(by: "address" | "payer" = "address", changes: Partial<Asked> = {}): CountedAsking {
  const { address = "192.0.2.1", method = "GET", label = "GET /a", requests = 2 } = changes;
  const quota = { requests, windowMs: DAY_MS, by };
  const plan = { label, goods: new Set([404]), quota };
  return {
    client: { address },
    visitor: { request: { method } },
    decision: { plan, soldMethod: method === "HEAD" ? "GET" : method },
  };
}

interface Asked {
  readonly address: string;
  readonly method: string;
  readonly label: string;
  readonly requests: number;
}

const answered = (status: number): Delivery => ({ kind: "delivered", status, upstreamMs: 1 });
const GONE: Delivery = { kind: "abandoned", status: null, sent: true };
const granted = (times: number) => [{ key: KEY, untilMs: systemTime.now() + DAY_MS, times }];

function ended(use: CountedUse | NoUse, delivery = answered(200)): string {
  if ("kind" in use) return use.kind;
  use.ended(delivery);
  return use.lines.join(" ");
}

describe("what is free", () => {
  test("is so many requests of an address, of IPv6 of its network, in one day of UTC", async () => {
    const stage = new Stage();
    const asks = async (address: string) =>
      ended(await stage.uses.ofQuota(asking("address", { address }), null));
    expect(await asks("192.0.2.1")).toBe(
      'RateLimit-Policy "free";q=2;w=86400 RateLimit "free";r=1;t=86399',
    );
    expect(await asks("192.0.2.1")).toContain("r=0");
    expect(await asks("192.0.2.1")).toBe("none");
    expect(await asks("192.0.2.2")).toContain("r=1");
    expect(await asks("2001:db8::1")).toContain("r=1");
    expect(await asks("2001:db8::ffff:2")).toContain("r=0");
    expect(await asks("2001:db8::3")).toBe("none");
    expect(await asks("2001:db8:0:1::3")).toContain("r=1");
    stage.nowMs += DAY_MS;
    expect(await asks("192.0.2.1")).toContain("r=1");
  });

  test("is of a route, and of an account in any letters, on all chains of its kind", async () => {
    const stage = new Stage();
    const asks = async (account: ProvenAccount | null, label = "GET /a") =>
      ended(await stage.uses.ofQuota(asking("payer", { label }), account));
    expect(await asks(null)).toBe("none");
    expect(await asks(ALICE)).toContain("r=1");
    const same = { ...ALICE, address: ALICE.address.toLowerCase(), network: "polygon" } as const;
    expect(await asks(same)).toContain("r=0");
    expect(await asks(ALICE)).toBe("none");
    expect(await asks({ ...ALICE, hasKey: false })).toContain("r=1");
    expect(await asks(ALICE, "GET /b")).toContain("r=1");
  });

  test("is given back for what is no goods, and not to who has left", async () => {
    const stage = new Stage();
    const asks = async (delivery: Delivery) =>
      ended(await stage.uses.ofQuota(asking("address", { requests: 3 }), null), delivery);
    const broken = { kind: "broken", status: 200, detail: "" } as const;
    for (const each of [answered(500), answered(403), { ...GONE, sent: false }, broken]) {
      expect(await asks(each)).toContain("r=2");
    }
    expect(await asks(answered(404))).toContain("r=2");
    expect(await asks(GONE)).toContain("r=1");
    expect(await asks(answered(302))).toContain("r=0");
    expect(await asks(answered(200))).toBe("none");
  });

  test("is told with when it begins anew, and to whom it is given where it is full", async () => {
    const stage = new Stage();
    const no = async (changes: Partial<Asked>) => {
      const use = await stage.uses.ofQuota(asking("address", { requests: 1, ...changes }), null);
      return "kind" in use ? use : ended(use);
    };
    await no({});
    const next = new Date(Math.ceil(stage.nowMs / DAY_MS) * DAY_MS).toISOString();
    expect(await no({})).toMatchObject({
      kind: "none",
      lines: ["RateLimit-Policy", '"free";q=1;w=86400', "RateLimit", '"free";r=0;t=86399'],
      said: `what is free of it (1 requests) is used up, and begins anew at ${next}`,
    });
    for (let number = 0; number < 256; number += 1) {
      await no({ address: `2001:db8:1:${number.toString(16)}::1`, label: "GET /b" });
    }
    const crowd = await no({ address: "2001:db8:1:ffff::1", label: "GET /b" });
    expect(crowd).toMatchObject({ said: expect.stringContaining("given to others") });
  });

  test("is nothing where nothing is counted, and is not known where the ledger is away", async () => {
    const { uses, store } = new Stage();
    expect(ended(await new CountedUses(undefined).ofQuota(asking(), null))).toBe("none");
    const away = () => Promise.reject(new Error("away"));
    const leases = new PotLeases({
      pots: { draw: away },
      atRisk: () => 0n,
      time: systemTime,
      logger,
    });
    expect(ended(await new CountedUses(leases).ofQuota(asking(), null))).toBe("unavailable");
    expect(ended(await new CountedUses(leases).ofPurchase(granted(1), asking()))).toBe(
      "unavailable",
    );
    expect(await uses.ofPurchase([], asking())).toEqual({ kind: "none", lines: [] });
    expect(store.pots.fills.size).toBe(0);
  });
});

describe("uses of a purchase", () => {
  test("are so many, for heads and who leaves early none, over all processes", async () => {
    const stage = new Stage();
    const other = new CountedUses(stage.leasesOf("other"));
    const asks = async (delivery: Delivery, method = "GET", uses = stage.uses) =>
      ended(await uses.ofPurchase(granted(3), asking("address", { method })), delivery);
    expect(await asks(answered(200), "HEAD")).toContain('RateLimit "purchase";r=2');
    expect(await asks(GONE)).toContain("r=2");
    expect(await asks(GONE, "POST")).toContain("r=2");
    expect(await asks(answered(200))).toContain("r=1");
    // What the first has used is not written yet, and so not known to the other.
    expect(await asks(answered(200), "GET", other)).toContain("r=");
    expect(await asks(answered(200), "GET", other)).toBe("none");
    expect(await asks(answered(200))).toBe("none");
    const pots = potsIn(stage.store, systemTime, "reader");
    await stage.leases.drain();
    expect((await pots.balances([usesPot(KEY)])).get(usesPot(KEY))?.free).toBe(0n);
  });

  test("are those of the next purchase where one has none left", async () => {
    const { uses } = new Stage();
    const [first] = granted(1);
    const second = { key: "evm:base-sepolia:two" as PaymentKey, untilMs: first?.untilMs ?? 0 };
    const both = [...granted(1), { ...second, times: 1 }];
    const asks = async () => ended(await uses.ofPurchase(both, asking()));
    expect([await asks(), await asks()].every((each) => each.includes("r=0"))).toBe(true);
    expect(await asks()).toBe("none");
  });
});
