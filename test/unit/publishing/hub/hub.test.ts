import { onTestFinished, describe, expect, test, vi } from "vitest";
import { Hub } from "../../../../src/publishing/hub/hub.ts";
import { LedgerUnavailable } from "../../../../src/ledger/ledger.ts";
import type { SoldOffer, SoldOffers } from "../../../../src/ledger/sold-offers.ts";
import { createLogger } from "../../../../src/telemetry/logger.ts";
import { Metrics } from "../../../../src/telemetry/metrics.ts";
import type { PaymentRequirements } from "../../../../src/x402/x402.ts";
import { ManualTime } from "../../../support/manual-time.ts";
import { MemorySoldOffers } from "../../../support/memory-sold-offers.ts";
import { examplePayment } from "../../ledger/example-payment.ts";

const WEATHER = "https://weather.example.com";
const INPUT = { type: "http", method: "GET", discoverable: true };
const HOUR_MS = 3_600_000;
const EXPIRES_MS = 10 * HOUR_MS;
/** Longer than it takes to notice what another replica has stored. */
const LOOK_MS = 5_000;

function sold(path: string, change: Partial<PaymentRequirements> = {}): PaymentRequirements {
  const { paymentRequirements } = examplePayment(1).request;
  const resource = `${WEATHER}${path}`;
  return { ...paymentRequirements, resource, outputSchema: { input: INPUT }, ...change };
}

/** A store that several hubs have in common, which counts what is written and may refuse it. */
class Store extends MemorySoldOffers {
  isDown = false;
  readonly noted: SoldOffer[] = [];

  override async note(offer: SoldOffer): Promise<void> {
    this.#check();
    this.noted.push(offer);
    await super.note(offer);
  }

  override async since(...asked: Parameters<SoldOffers["since"]>): Promise<readonly SoldOffer[]> {
    this.#check();
    return super.since(...asked);
  }

  #check(): void {
    if (this.isDown) throw new LedgerUnavailable("the disk is full");
  }
}

interface Opened {
  readonly hub: Hub;
  readonly log: readonly Record<string, unknown>[];
}

function stage() {
  const time = new ManualTime();
  const rows = new Map<string, SoldOffer>();
  const store = new Store(rows);
  const open = async ({ urls = [WEATHER], maxResources = 10 } = {}): Promise<Opened> => {
    const log: Record<string, unknown>[] = [];
    const write = (line: string): void => void log.push(JSON.parse(line));
    const logger = createLogger({ level: "info", format: "json", destination: { write } });
    const gateways = [
      { name: "weather", urls },
      { name: "quiet", urls: [] },
    ];
    const catalogue = { expiresMs: EXPIRES_MS, maxResources, isPublic: false };
    const telemetry = { logger, metrics: new Metrics("test") };
    const hub = await Hub.open(
      { gateways, catalogue },
      { ledger: { sold: store }, telemetry, time },
    );
    onTestFinished(() => hub.close());
    return { hub, log };
  };
  return { time, rows, store, open };
}

const entriesOf = (hub: Hub) => hub.since(0).put;

const revisionOf = (hub: Hub): number => hub.since(0).revision;

const resourcesOf = (hub: Hub): readonly string[] =>
  entriesOf(hub)
    .map(({ resource }) => resource.slice(WEATHER.length))
    .toSorted();

const messages = (log: readonly Record<string, unknown>[]): readonly unknown[] =>
  log.map(({ msg }) => msg);

describe("the sales of other gateways", () => {
  test("are stored when they are new or changed, and else only now and then", async () => {
    const { time, store, open } = stage();
    const { hub, log } = await open();
    for (let count = 0; count < 50; count += 1) hub.sold("weather", sold("/today"));
    await time.advance(HOUR_MS - 1);
    hub.sold("weather", sold("/today"));
    expect(store.noted).toHaveLength(1);
    await time.advance(1);
    hub.sold("weather", sold("/today"));
    hub.sold("weather", sold("/today", { maxAmountRequired: "20000" }));
    expect(store.noted).toHaveLength(3);
    // Not the change of its price: that may be another one with each sale.
    expect(messages(log)).toEqual(["what a gateway sold is listed"]);
    expect(log[0]).toMatchObject({ gateway: "weather", resource: `${WEATHER}/today` });
  });

  test("are one way to pay however the address of the token is written", async () => {
    const { rows, open } = stage();
    const { hub } = await open();
    const { asset } = sold("/today");
    for (const written of [asset, asset.toLowerCase(), `0x${asset.slice(2).toUpperCase()}`]) {
      hub.sold("weather", sold("/today", { asset: written }));
    }
    expect(entriesOf(hub).map(({ accepts }) => accepts.length)).toEqual([1]);
    await hub.close();
    expect(rows.size).toBe(1);
  });

  test("are listed in their new terms though the clock was set back", async () => {
    const { rows, open, time } = stage();
    const { hub } = await open();
    await time.advance(2 * HOUR_MS);
    hub.sold("weather", sold("/today"));
    const late = time.now();
    vi.spyOn(time, "now").mockImplementation(() => late - HOUR_MS);
    hub.sold("weather", sold("/today", { maxAmountRequired: "20000" }));
    expect(entriesOf(hub)[0]?.accepts[0]?.maxAmountRequired).toBe("20000");
    await hub.close();
    expect([...rows.values()].map(({ terms }) => JSON.parse(terms).maxAmountRequired)).toEqual([
      "20000",
    ]);
  });

  test("are the same whichever account pays the network fee", async () => {
    const { store, open } = stage();
    const { hub } = await open();
    for (const feePayer of ["one", "two", "one"]) {
      hub.sold("weather", sold("/today", { network: "solana", extra: { feePayer } }));
    }
    expect(store.noted).toHaveLength(1);
  });

  test("are there again after a restart, until they expire, and are then gone from the store", async () => {
    const { time, rows, open } = stage();
    const first = await open();
    first.hub.sold("weather", sold("/today"));
    await first.hub.close();
    const { hub } = await open();
    expect(resourcesOf(hub)).toEqual(["/today"]);
    const revision = revisionOf(hub);
    await time.advance(EXPIRES_MS - 1);
    expect([revisionOf(hub), resourcesOf(hub)]).toEqual([revision, ["/today"]]);
    expect(rows.size).toBe(1);
    await time.advance(1);
    expect(revisionOf(hub)).not.toBe(revision);
    expect(entriesOf(hub)).toEqual([]);
    await time.advance(2 * HOUR_MS);
    expect(rows.size).toBe(0);
  });

  test("that another replica stored are seen soon, and what it changed", async () => {
    const { time, open } = stage();
    const [one, two] = [await open(), await open()];
    one.hub.sold("weather", sold("/today"));
    expect(entriesOf(two.hub)).toEqual([]);
    await time.advance(LOOK_MS);
    expect(resourcesOf(two.hub)).toEqual(["/today"]);
    const revision = revisionOf(two.hub);
    await time.advance(10 * LOOK_MS);
    expect(revisionOf(two.hub)).toBe(revision);
    one.hub.sold("weather", sold("/today", { maxAmountRequired: "20000" }));
    await time.advance(LOOK_MS);
    expect(entriesOf(two.hub)[0]?.accepts[0]?.maxAmountRequired).toBe("20000");
    expect(entriesOf(two.hub)).toEqual(entriesOf(one.hub));
  });

  test("that another replica stored late, or by a clock that is slow, are seen as well", async () => {
    const { time, rows, store, open } = stage();
    const [one, two] = [await open(), await open()];
    one.hub.sold("weather", sold("/today"));
    await time.advance(1);
    const [row] = store.noted;
    if (row === undefined) throw new Error("a row");
    await time.advance(6 * LOOK_MS);
    rows.set("late", { ...row, resource: `${WEATHER}/late` });
    await time.advance(LOOK_MS);
    expect(resourcesOf(two.hub)).toEqual(["/late", "/today"]);
  });

  test("make room in the order of sales after a restart, too", async () => {
    const { time, open } = stage();
    const first = await open({ maxResources: 2 });
    for (const path of ["/a", "/b"]) {
      first.hub.sold("weather", sold(path));
      await time.advance(1);
    }
    await first.hub.close();
    const { hub } = await open({ maxResources: 2 });
    hub.sold("weather", sold("/c"));
    expect(resourcesOf(hub)).toEqual(["/b", "/c"]);
  });

  test("wait for the store in a number that is bounded", async () => {
    const { store, open } = stage();
    const { hub } = await open({ maxResources: 1_000 });
    const release = Promise.withResolvers<undefined>();
    const noting = vi.spyOn(store, "note").mockImplementation(() => release.promise);
    for (let number = 0; number < 1_000; number += 1) hub.sold("weather", sold(`/${number}`));
    expect(noting.mock.calls.length).toBeLessThan(300);
    expect(entriesOf(hub)).toHaveLength(1_000);
    release.resolve(undefined);
  });

  test("are not listed for a gateway, or under a URL, that the file does not name any more", async () => {
    const { open } = stage();
    const { hub } = await open();
    hub.sold("weather", sold("/v1/today"));
    hub.sold("weather", sold("/v2/today"));
    await hub.close();
    expect(resourcesOf((await open({ urls: [`${WEATHER}/v2`] })).hub)).toEqual(["/v2/today"]);
    expect(entriesOf((await open({ urls: [] })).hub)).toEqual([]);
  });

  test("are listed although they cannot be stored, which is said once, and stored with the next sale", async () => {
    const { time, store, open } = stage();
    const { hub, log } = await open();
    store.isDown = true;
    const listed = { status: "success", reason: undefined };
    expect(hub.sold("weather", sold("/today"))).toEqual(listed);
    expect(hub.sold("weather", sold("/tomorrow"))).toEqual(listed);
    await time.advance(10 * LOOK_MS);
    expect(resourcesOf(hub)).toEqual(["/today", "/tomorrow"]);
    const warnings = log.filter(({ level }) => level !== "info" && level !== 30);
    expect(messages(warnings)).toEqual([
      "what gateways sell cannot be stored now",
      "what gateways sell cannot be read now",
    ]);
    store.isDown = false;
    hub.sold("weather", sold("/today"));
    await time.advance(1);
    expect(store.noted.map(({ resource }) => resource)).toEqual([`${WEATHER}/today`]);
  });

  test("are refused with a reason, which the log says once in a while", async () => {
    const { time, open } = stage();
    const { hub, log } = await open();
    const odd = sold("/today", { resource: "https://evil.example/today" });
    const reason = "resource is under no URL that this gateway may list";
    for (let count = 0; count < 5; count += 1) {
      expect(hub.sold("weather", odd)).toEqual({ status: "rejected", reason });
    }
    expect(log).toHaveLength(1);
    expect(log[0]).toMatchObject({
      gateway: "weather",
      reason,
      msg: "what a gateway sold is not listed",
    });
    await time.advance(HOUR_MS);
    hub.sold("weather", odd);
    expect(log).toHaveLength(2);
    expect(hub.sold("quiet", sold("/today"))).toBeUndefined();
    expect(hub.sold("nobody", sold("/today"))).toBeUndefined();
    expect(entriesOf(hub)).toEqual([]);
  });

  test("make room for each other, in the store as well", async () => {
    const { time, rows, open } = stage();
    const { hub, log } = await open({ maxResources: 2 });
    for (const path of ["/a", "/b", "/c", "/d"]) {
      hub.sold("weather", sold(path));
      await time.advance(1);
    }
    expect(resourcesOf(hub)).toEqual(["/c", "/d"]);
    expect([...rows.values()].map(({ resource }) => resource.slice(-2))).toEqual(["/c", "/d"]);
    expect(messages(log).filter((msg) => String(msg).includes("made room"))).toHaveLength(1);
    // What comes in place of something else is no line each time.
    expect(messages(log).filter((msg) => msg === "what a gateway sold is listed")).toHaveLength(2);
    hub.sold("weather", sold("/a"));
    await time.advance(1);
    expect([...rows.values()].map(({ resource }) => resource.slice(-2))).toEqual(["/d", "/a"]);
  });

  test("are left out where somebody else has been at what is stored", async () => {
    const { time, rows, store, open } = stage();
    const { hub } = await open();
    hub.sold("weather", sold("/today"));
    await time.advance(1);
    const [row] = store.noted;
    if (row === undefined) throw new Error("a row");
    for (const terms of ["{", "null", "[]", '{"accepts":1}', '{"network":"base"}']) {
      rows.set(terms, { ...row, resource: `${WEATHER}/${terms.length}`, terms });
    }
    expect(resourcesOf((await open()).hub)).toEqual(["/today"]);
  });

  test("are nothing where the store cannot be read: the process does not start", async () => {
    const { store, open } = stage();
    store.isDown = true;
    await expect(open()).rejects.toThrow(LedgerUnavailable);
  });
});
