/** What a payer who signs in has bought, how he gets it, and that each sign-in is used once. */
import { expect, it } from "vitest";
import { MAX_OWED, MAX_REPLAYS, REPLAY_MS, type Ledger } from "../../../src/ledger/ledger.ts";
import {
  MAX_SIGN_INS_PER_PAYER,
  SIGN_IN_KEY_BYTES,
  SIGN_IN_MARGIN_MS,
  type SignInVerdict,
} from "../../../src/ledger/sign-ins.ts";
import type { LedgerCapabilities, OpenLedger } from "../../support/ledger-contract.ts";
import { eachTestIn } from "./contract-place.ts";
import { examplePayment, PAYER } from "./example-payment.ts";
import {
  ASKED,
  bring,
  CUT_OFF,
  keep,
  OTHER_BINDING,
  OTHER_TARGET,
  replayed,
  SETTLEMENT,
  sign,
  SALE,
  TARGET,
  termsOf,
  word,
} from "./ledger-driver.ts";
import type { StartState } from "./ledger-transitions.ts";

/** On another device. */
const ELSEWHERE = { claimant: "another client", proof: "signed-in" } as const;
const FOR_MS = 60_000;
const UNTIL_MS = 1_700_000_300_000;

export function describeSignIns(open: OpenLedger, can: LedgerCapabilities): void {
  const place = eachTestIn(open);
  const payment = examplePayment(1);
  const { key } = payment;

  const bought = async (
    ledger: Pick<Ledger, "signIns">,
    sale: Partial<typeof SALE> = {},
    payer = PAYER,
  ): Promise<readonly string[]> => {
    const found = await ledger.signIns.bought(payer, { ...SALE, ...sale });
    return found.map((each) => each.key);
  };

  const use = (
    ledger: Pick<Ledger, "signIns">,
    nonce: string,
    payer = PAYER,
  ): Promise<SignInVerdict> => ledger.signIns.use({ nonce, payer, untilMs: UNTIL_MS });

  it.each<[StartState, number]>([
    ["claimed", 0],
    ["signed", 1],
    ["settled", 1],
    ["delivering", 1],
    ["served", 1],
    ["kept", 1],
    ["delivered", 0],
    ["failed", 0],
    ["begunHanded", 0],
  ])("has bought it in state %s: %i", async (state, count) => {
    const { ledger } = place();
    await bring(ledger, payment, state);
    expect(await bought(ledger)).toHaveLength(count);
    expect(await bought(ledger.worker("a"), {}, PAYER.toUpperCase())).toHaveLength(count);
    expect(await bought(ledger, {}, `0x${"12".repeat(20)}`)).toEqual([]);
    expect(await bought(ledger, { binding: OTHER_BINDING })).toEqual([]);
    // What is paid, and of which nothing has begun, is for any query of its path.
    const isOpen = state === "signed" || state === "settled" || state === "delivering";
    expect(await bought(ledger, { target: OTHER_TARGET })).toHaveLength(isOpen ? 1 : 0);
  });

  it.each<[StartState, number]>([
    ["claimed", 0],
    ["signed", 0],
    ["settled", 1],
    ["delivering", 1],
    ["kept", 1],
    ["delivered", 1],
    ["failed", 0],
    ["begunHanded", 0],
  ])("has paid for it in state %s: %i", async (state, count) => {
    const { ledger, time } = place();
    const createdMs = time.nowMs;
    await bring(ledger, payment, state);
    const { network } = payment.request.paymentRequirements;
    const paid = { key, network, route: null, createdMs };
    const purchases = await ledger.signIns.purchases(PAYER, null);
    expect(purchases).toEqual(Array.from({ length: count }, () => paid));
    expect(await ledger.worker("a").signIns.purchases(PAYER.toUpperCase(), null)).toEqual(
      purchases,
    );
    expect(await ledger.signIns.purchases(`0x${"12".repeat(20)}`, null)).toEqual([]);
    expect(await ledger.signIns.purchases(PAYER, ["GET /"])).toEqual([]);
  });

  it.each<[StartState, number]>([
    ["settled", 0],
    ["delivering", 0],
    ["served", 0],
    ["kept", 1],
    ["delivered", 1],
  ])("has had it in state %s, which counts for what its route grants: %i", async (state, count) => {
    const { ledger } = place();
    await bring(ledger, payment, state, { route: "GET /one" });
    expect(await ledger.signIns.purchases(PAYER, ["GET /one"])).toHaveLength(count);
  });

  it("is told the newest of what it has paid for first, of the routes that are asked for alone", async () => {
    const { ledger, time } = place();
    const routes = ["GET /one", "GET /two"];
    for (const number of [1, 2, 3]) {
      time.nowMs += 1;
      const each = examplePayment(number);
      const route = routes[number % 2];
      await ledger.step(each.key, { kind: "claim", terms: termsOf(each, { route }) });
      await sign(ledger, [each]);
      await ledger.step(each.key, { kind: "settled", settlement: SETTLEMENT });
      await ledger.step(each.key, { kind: "delivering" });
      await ledger.step(each.key, { kind: "delivered" });
    }
    const told = async (asked: readonly string[] | null) =>
      (await ledger.signIns.purchases(PAYER, asked)).map((each) => each.key);
    const [first, second, third] = [1, 2, 3].map((number) => examplePayment(number).key);
    expect(await told(null)).toEqual([third, second, first]);
    expect(await told(["GET /two"])).toEqual([third, first]);
    expect(await told(["GET /one", "GET /three"])).toEqual([second]);
  });

  it("gets a kept answer as often, and so long, as whoever has it, who keeps it", async () => {
    const { ledger, time } = place();
    await bring(ledger, payment, "kept");
    const claim = (collector: object): Promise<string> =>
      word(ledger.step(key, { kind: "claim", terms: termsOf(payment, collector) }));
    expect(await claim({ claimant: ELSEWHERE.claimant })).toBe("spent");
    expect(await claim(ELSEWHERE)).toBe("sold");
    expect(await replayed(ledger, key, { ...ASKED, ...ELSEWHERE })).toBeDefined();
    // Whoever has claimed it has it still, and nobody else by his address.
    expect(await replayed(ledger, key, { ...ASKED, claimant: ELSEWHERE.claimant })).toBeUndefined();
    expect(await replayed(ledger, key)).toBeDefined();
    for (let times = 2; times < MAX_REPLAYS; times += 1) {
      expect(await bought(ledger)).toEqual([key]);
      expect(await replayed(ledger, key, { ...ASKED, ...ELSEWHERE })).toBeDefined();
    }
    expect(await bought(ledger)).toEqual([]);
    expect(await replayed(ledger, key, { ...ASKED, ...ELSEWHERE })).toBeUndefined();
    const second = examplePayment(2);
    await bring(ledger, second, "kept");
    expect(await bought(ledger)).toEqual([second.key]);
    time.nowMs += REPLAY_MS;
    expect(await bought(ledger)).toEqual([]);
  });

  it("fetches again what may be fetched again, as often and so long", async () => {
    const { ledger, time } = place();
    await bring(ledger, payment, "delivering");
    await ledger.step(key, { kind: "delivered", again: { target: TARGET, forMs: FOR_MS } });
    const fetch = (collector: object): Promise<boolean> => {
      const asked = { target: TARGET, times: 2, ...ELSEWHERE, ...collector };
      return ledger.step(key, { kind: "repeat", asked });
    };
    expect(await bought(ledger)).toEqual([key]);
    expect(await fetch({ proof: undefined })).toBe(false);
    expect(await fetch({})).toBe(true);
    expect(await fetch({ proof: undefined })).toBe(false);
    expect(await fetch({})).toBe(true);
    expect(await fetch({})).toBe(false);
    time.nowMs += FOR_MS;
    expect(await bought(ledger)).toEqual([]);
  });

  it("gets what is paid and was not delivered, whose claimant it does not become", async () => {
    const { ledger } = place();
    await bring(ledger, payment, "served");
    await ledger.step(key, { kind: "leave" });
    const sale = { ...SALE, idempotencyKey: termsOf(payment).idempotencyKey };
    const delivering = { kind: "delivering", sale: { ...sale, ...ELSEWHERE } } as const;
    const stranger = { ...sale, claimant: ELSEWHERE.claimant };
    expect(await ledger.step(key, { kind: "delivering", sale: stranger })).toBe(false);
    expect(await ledger.step(key, delivering)).toBe(true);
    await ledger.step(key, { kind: "undelivered", broken: CUT_OFF });
    expect(await ledger.step(key, { kind: "delivering", sale: stranger })).toBe(false);
    expect(await ledger.step(key, delivering)).toBe(true);
  });

  it("is told of what was not delivered first, then of the newest, and of no more than eight", async () => {
    const { ledger, time } = place();
    const payments = Array.from({ length: MAX_OWED + 2 }, (_, number) => examplePayment(number));
    for (const [number, each] of payments.entries()) {
      time.nowMs += 1;
      await bring(ledger, each, number === 0 ? "settled" : "kept");
    }
    const [undelivered, ...others] = payments.map((each) => each.key);
    const newest = others.toReversed().slice(0, MAX_OWED - 1);
    expect(await bought(ledger)).toEqual([undelivered, ...newest]);
  });

  it("uses each sign-in once, also of twenty at once, of a worker, and after a restart", async () => {
    const { ledger } = place();
    const lives = [ledger, ledger.worker("a"), ledger.worker("b")];
    const uses = Array.from({ length: 20 }, (_, number) => use(lives[number % 3] ?? ledger, "ab"));
    expect((await Promise.all(uses)).toSorted()).toEqual([
      ...Array.from({ length: 19 }, () => "again"),
      "first",
    ]);
    expect(await use(ledger, "ab", `0x${"12".repeat(20)}`)).toBe("again");
    expect(await use(ledger, "cd")).toBe("first");
    const next = await place().restart("second");
    expect(await use(next, "ab")).toBe("again");
  });

  it("is remembered until it is too old by any clock", async () => {
    const { ledger, time } = place();
    expect(await use(ledger, "ab")).toBe("first");
    time.nowMs = UNTIL_MS + SIGN_IN_MARGIN_MS - 1;
    expect(await use(ledger, "ab")).toBe("again");
    time.nowMs += 1;
    expect(await use(ledger, "ab")).toBe("first");
  });

  it("has as many of its own remembered as one payer may, which are nobody else's", async () => {
    const { ledger, time } = place();
    const uses = Array.from({ length: MAX_SIGN_INS_PER_PAYER + 3 }, (_, number) =>
      use(ledger, `${number}`, number % 2 === 0 ? PAYER : PAYER.toLowerCase()),
    );
    const verdicts = await Promise.all(uses);
    expect(verdicts.filter((verdict) => verdict === "first")).toHaveLength(MAX_SIGN_INS_PER_PAYER);
    expect(verdicts.filter((verdict) => verdict === "crowded")).toHaveLength(3);
    expect(await use(ledger, "other", `0x${"12".repeat(20)}`)).toBe("first");
    time.nowMs = UNTIL_MS + SIGN_IN_MARGIN_MS;
    expect(await use(ledger, "later")).toBe("first");
  });

  it("answers challenges by one secret, also after a restart", async () => {
    const { ledger } = place();
    const made = await ledger.signIns.key();
    expect(made).toHaveLength(SIGN_IN_KEY_BYTES);
    expect(new Set(made).size).toBeGreaterThan(8);
    const next = await place().restart("second");
    expect(Buffer.from(await next.signIns.key())).toEqual(Buffer.from(made));
  });

  if (can.severalLives) {
    it("is used once by two replicas, which have one secret", async () => {
      const one = place().ledger;
      const other = await place().live("second");
      const [mine, theirs] = await Promise.all([one.signIns.key(), other.signIns.key()]);
      expect(Buffer.from(mine)).toEqual(Buffer.from(theirs));
      const uses = Array.from({ length: 20 }, (_, number) => use(number % 2 ? one : other, "ab"));
      const verdicts = await Promise.all(uses);
      expect(verdicts.filter((verdict) => verdict === "first")).toHaveLength(1);
      await bring(one, payment, "delivering");
      await keep(one, payment);
      expect(await bought(other)).toEqual([key]);
    });
  }
}
