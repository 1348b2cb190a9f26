/** Whose a payment is between its claim and its delivery, and who may collect what is owed for it. */
import { expect, it } from "vitest";
import {
  MAX_DELIVERY_ATTEMPTS,
  MAX_OWED,
  MAX_RENEWALS,
  MAX_REPLAYS,
  RENEWAL_WINDOW_MS,
  REPLAY_MS,
  type ClaimTerms,
  type SaleTerms,
} from "../../../src/ledger/ledger.ts";
import { paymentKey } from "../../../src/x402/payment-key.ts";
import type { OpenLedger } from "../../support/ledger-contract.ts";
import { eachTestIn } from "./contract-place.ts";
import { examplePayment, type ExamplePayment } from "./example-payment.ts";
import {
  ANSWER,
  ASKED,
  bring,
  CALLER,
  CUT_OFF,
  OTHER_BINDING,
  OTHER_TARGET,
  SALE,
  SETTLEMENT,
  sign,
  TARGET,
  termsOf,
  UNANSWERED,
  UNSENT,
  word,
  replayed,
} from "./ledger-driver.ts";

const payment = examplePayment(1);
const { key } = payment;
/** What the same payer presents next. */
const newer = examplePayment(2);

const STRANGER = { claimant: "another client" } as const;
const PAYER_ELSEWHERE = { ...STRANGER, proof: "valid" } as const;

const by = (who: Partial<ClaimTerms>, of: ExamplePayment = payment): ClaimTerms => termsOf(of, who);
const sale = (who: Partial<SaleTerms>): SaleTerms => {
  return { idempotencyKey: CALLER, target: TARGET, claimant: ASKED.claimant, ...who };
};

/** A payment of the same payer on another network. */
function onBase(number: number): ExamplePayment {
  const { paymentPayload, paymentRequirements } = examplePayment(number).request;
  const request = {
    paymentPayload: { ...paymentPayload, network: "base" },
    paymentRequirements: { ...paymentRequirements, network: "base" },
  } as const;
  const named = paymentKey(request);
  if (!named.ok) throw new Error("it has no key");
  return { key: named.value, request };
}

export function describeDebts(open: OpenLedger): void {
  const place = eachTestIn(open);
  const owed = async (asked = SALE): Promise<readonly string[]> =>
    (await place().ledger.recall(newer.request.paymentPayload, asked)).owed.map((each) => each.key);

  it.each(["claimed", "signed", "settled"] as const)(
    "what is %s is its request's, in every life, until that leaves it",
    async (state) => {
      const { ledger } = place();
      const [one, other] = [ledger.worker("1"), ledger.worker("2")];
      await one.step(key, { kind: "claim", terms: termsOf(payment) });
      if (state === "signed") await sign(ledger, [payment]);
      if (state === "settled") await ledger.step(key, { kind: "settled", settlement: SETTLEMENT });
      expect(await word(other.step(key, { kind: "claim", terms: termsOf(payment) }))).toBe("busy");
      expect(await word(other.step(key, { kind: "claim", terms: by(PAYER_ELSEWHERE) }))).toBe(
        "busy",
      );
      // Who is not known is told to sign a new payment only where that is not charged.
      expect(await word(other.step(key, { kind: "claim", terms: by(STRANGER) }))).toBe("busy");
      expect(await other.step(key, { kind: "delivering", sale: sale({}) })).toBe(false);
      expect(await owed()).toEqual([]);
      await other.step(key, { kind: "leave" });
      expect(await word(other.step(key, { kind: "claim", terms: termsOf(payment) }))).toBe("busy");
      await one.step(key, { kind: "leave" });
      expect(await owed()).toEqual([key]);
      const kind = state === "settled" ? "settled" : "unresolved";
      expect(await word(other.step(key, { kind: "claim", terms: termsOf(payment) }))).toBe(kind);
    },
  );

  it("is told to a payer who was owed nothing when he asked before", async () => {
    const { ledger } = place();
    expect(await owed()).toEqual([]);
    await bring(ledger, payment, "settled");
    await ledger.step(key, { kind: "leave" });
    // With that it is stored.
    await ledger.books.counts();
    expect(await owed()).toEqual([key]);
  });

  it("what is taken over is the next request's, and not the first one's any more", async () => {
    const { ledger } = place();
    const [one, other] = [ledger.worker("1"), ledger.worker("2")];
    await one.step(key, { kind: "claim", terms: termsOf(payment) });
    await sign(ledger, [payment]);
    await one.step(key, { kind: "leave" });
    expect(await word(other.step(key, { kind: "claim", terms: termsOf(payment) }))).toBe(
      "unresolved",
    );
    expect(await word(one.step(key, { kind: "claim", terms: termsOf(payment) }))).toBe("busy");
    await ledger.step(key, { kind: "settled", settlement: SETTLEMENT });
    expect(await one.step(key, { kind: "delivering", sale: sale({}) })).toBe(false);
    expect(await other.step(key, { kind: "delivering", sale: sale({}) })).toBe(true);
  });

  it("the death of the life that holds it leaves it to others, settlement or not", async () => {
    const { ledger } = place();
    const one = ledger.worker("1");
    const other = ledger.worker("2");
    const signed = examplePayment(3);
    await one.step(key, { kind: "claim", terms: termsOf(payment) });
    await one.step(signed.key, { kind: "claim", terms: termsOf(signed) });
    await ledger.step(key, { kind: "settled", settlement: SETTLEMENT });
    await sign(ledger, [signed]);
    expect(await one.end(new Set([signed.key]))).toBe(2);
    expect((await owed()).toSorted()).toEqual([key, signed.key].toSorted());
    expect(await word(other.step(key, { kind: "claim", terms: termsOf(payment) }))).toBe("settled");
    expect(await word(other.step(signed.key, { kind: "claim", terms: termsOf(signed) }))).toBe(
      "unresolved",
    );
  });

  it("a restart leaves what the life before held", async () => {
    const signed = examplePayment(3);
    await bring(place().ledger, payment, "settled");
    await bring(place().ledger, signed, "signed");
    const next = await place().restart("second");
    await next.upkeep.reap();
    const found = await next.recall(newer.request.paymentPayload, SALE);
    expect(found.owed.map((each) => each.key).toSorted()).toEqual([key, signed.key].toSorted());
    expect(await next.step(key, { kind: "delivering", sale: sale({}) })).toBe(true);
  });

  it.each(["claimed", "signed", "settled", "retried", "served", "exhausted"] as const)(
    "a stranger who shows what is %s gets nothing",
    async (state) => {
      const { ledger } = place();
      await bring(ledger, payment, state);
      await ledger.step(key, { kind: "leave" });
      expect(await word(ledger.step(key, { kind: "claim", terms: by(STRANGER) }))).toBe("withheld");
      expect(await ledger.step(key, { kind: "delivering", sale: sale(STRANGER) })).toBe(false);
      expect(
        await word(
          ledger.step(key, { kind: "claim", terms: by({ ...STRANGER, proof: "signed" }) }),
        ),
      ).toBe("withheld");
    },
  );

  it("a stranger who shows what is delivered gets no kept answer, and its payer does", async () => {
    const { ledger } = place();
    await bring(ledger, payment, "kept");
    expect(await word(ledger.step(key, { kind: "claim", terms: by(STRANGER) }))).toBe("spent");
    expect(await replayed(ledger, key, { ...ASKED, ...STRANGER })).toBeUndefined();
    expect(await word(ledger.step(key, { kind: "claim", terms: by(PAYER_ELSEWHERE) }))).toBe(
      "sold",
    );
    expect(await replayed(ledger, key, { ...ASKED, ...PAYER_ELSEWHERE })).toBeDefined();
    // From here on it is kept for where it was given last.
    expect(await word(ledger.step(key, { kind: "claim", terms: by(STRANGER) }))).toBe("sold");
    expect(await word(ledger.step(key, { kind: "claim", terms: termsOf(payment) }))).toBe(
      "withheld",
    );
    await ledger.step(key, { kind: "collected" });
    expect(await word(ledger.step(key, { kind: "claim", terms: termsOf(payment) }))).toBe("spent");
  });

  it("the payer collects from anywhere, and what then breaks is kept for him there", async () => {
    const { ledger } = place();
    await bring(ledger, payment, "retried");
    expect(await ledger.step(key, { kind: "claim", terms: by(PAYER_ELSEWHERE) })).toMatchObject({
      kind: "settled",
    });
    expect(await ledger.step(key, { kind: "delivering", sale: sale(PAYER_ELSEWHERE) })).toBe(true);
    await ledger.step(key, { kind: "undelivered", broken: UNANSWERED });
    expect(await word(ledger.step(key, { kind: "claim", terms: termsOf(payment) }))).toBe(
      "withheld",
    );
    expect(await word(ledger.step(key, { kind: "claim", terms: by(STRANGER) }))).toBe("settled");
  });

  it("owes what failed to be delivered, and nothing that was", async () => {
    const { ledger } = place();
    for (const broken of [UNSENT, UNANSWERED, CUT_OFF]) {
      expect(await ledger.step(key, { kind: "claim", terms: termsOf(payment) })).toMatchObject({});
      await ledger.step(key, { kind: "settled", settlement: SETTLEMENT });
      await ledger.step(key, { kind: "delivering", sale: sale({}) });
      expect(await owed()).toEqual([]);
      await ledger.step(key, { kind: "undelivered", broken });
      expect(await owed()).toEqual([key]);
    }
    await ledger.step(key, { kind: "delivering", sale: sale({}) });
    await ledger.step(key, { kind: "delivered" });
    expect(await owed()).toEqual([]);
  });

  it("owes for the same binding, network and payer, and for the target that has begun", async () => {
    const { ledger } = place();
    await bring(ledger, payment, "retried");
    expect(await owed({ ...SALE, binding: OTHER_BINDING })).toEqual([]);
    expect(await owed({ ...SALE, target: OTHER_TARGET })).toEqual([key]);
    const { paymentPayload } = newer.request;
    const elsewhere = await ledger.recall({ ...paymentPayload, network: "base" }, SALE);
    expect(elsewhere.owed).toEqual([]);
    const { authorization } = paymentPayload.payload as { readonly authorization: object };
    const from = `0x${"77".repeat(20)}`;
    const payload = { ...paymentPayload.payload, authorization: { ...authorization, from } };
    const others = { ...paymentPayload, payload } as typeof paymentPayload;
    expect((await ledger.recall(others, SALE)).owed).toEqual([]);
    await ledger.step(key, { kind: "delivering", sale: sale({}) });
    await ledger.step(key, { kind: "undelivered", broken: CUT_OFF });
    expect(await owed({ ...SALE, target: OTHER_TARGET })).toEqual([]);
    expect(await owed()).toEqual([key]);
  });

  it("owes nothing to another signature of a nonce that is known", async () => {
    const { ledger } = place();
    await bring(ledger, payment, "retried");
    const { paymentPayload } = payment.request;
    const payload = { ...paymentPayload.payload, signature: `0x${"ee".repeat(65)}` };
    const varied = { ...paymentPayload, payload } as typeof paymentPayload;
    expect(await ledger.recall(varied, SALE)).toEqual({ request: undefined, owed: [] });
  });

  it("owes an answer that its buyer had left, until it was sent or its time is over", async () => {
    const { ledger, time } = place();
    const another = examplePayment(3);
    for (const each of [payment, another]) {
      await bring(ledger, each, "delivering");
      await ledger.step(each.key, { kind: "leave" });
      expect(await owed()).toContain(each.key);
      await ledger.step(each.key, {
        kind: "delivered",
        sold: { ...ASKED, response: ANSWER, isUncollected: true },
      });
    }
    expect(await owed()).toEqual([key, another.key]);
    expect(await owed({ ...SALE, target: OTHER_TARGET })).toEqual([]);
    // Of who cannot pay now it is known as far that he is told of no payment to make.
    expect(
      await word(ledger.step(key, { kind: "claim", terms: by({ ...STRANGER, proof: "signed" }) })),
    ).toBe("withheld");
    expect(await word(ledger.step(key, { kind: "claim", terms: by(STRANGER) }))).toBe("withheld");
    expect(await word(ledger.step(key, { kind: "claim", terms: by(PAYER_ELSEWHERE) }))).toBe(
      "sold",
    );
    expect(await replayed(ledger, key, { ...ASKED, ...PAYER_ELSEWHERE })).toBeDefined();
    // Whoever gives it may die before it is sent.
    expect(await owed()).toContain(key);
    await ledger.step(key, { kind: "collected" });
    expect(await owed()).toEqual([another.key]);
    expect(
      await word(
        ledger.step(key, { kind: "claim", terms: by({ claimant: "a third", proof: "signed" }) }),
      ),
    ).toBe("spent");
    // Anybody may have shown it since, and gone.
    await ledger.step(key, { kind: "leave" });
    expect(await owed()).toEqual([another.key]);
    await ledger.worker("1").step(key, { kind: "unread" });
    expect(await owed()).toEqual([another.key]);
    await ledger.step(key, { kind: "unread" });
    expect(await owed()).toContain(key);
    await replayed(ledger, key, { ...ASKED, ...PAYER_ELSEWHERE });
    await ledger.step(key, { kind: "collected" });
    time.nowMs += REPLAY_MS;
    expect(await owed()).toEqual([]);
  });

  it("tells so many that are owed and no more, the oldest first", async () => {
    const { ledger, time } = place();
    const all = Array.from({ length: MAX_OWED + 2 }, (_, index) => examplePayment(10 + index));
    for (const each of all) {
      await bring(ledger, each, "retried");
      time.nowMs += 1;
    }
    // What was left a moment ago and is not stored yet may be told besides.
    await place().ledger.books.counts();
    expect(await owed()).toEqual(all.slice(0, MAX_OWED).map((each) => each.key));
  });

  it("tells what is owed behind as many answers that cannot be given any more", async () => {
    const { ledger } = place();
    for (let index = 0; index < MAX_OWED; index += 1) {
      const used = examplePayment(10 + index);
      await bring(ledger, used, "delivering");
      await ledger.step(used.key, {
        kind: "delivered",
        sold: { ...ASKED, response: ANSWER, isUncollected: true },
      });
      for (let replay = 0; replay < MAX_REPLAYS; replay += 1) {
        expect(await replayed(ledger, used.key, { ...ASKED, ...PAYER_ELSEWHERE })).toBeDefined();
      }
    }
    await bring(ledger, payment, "retried");
    // With that all of it is stored.
    await ledger.books.counts();
    expect(await owed()).toEqual([key]);
  });

  it("tells what is owed behind as many payments on another network", async () => {
    const { ledger } = place();
    for (let index = 0; index < MAX_OWED; index += 1) {
      const other = onBase(10 + index);
      await ledger.step(other.key, { kind: "claim", terms: termsOf(other) });
      await ledger.step(other.key, {
        kind: "settled",
        settlement: { ...SETTLEMENT, network: "base" },
      });
      await ledger.step(other.key, { kind: "leave" });
    }
    await bring(ledger, payment, "retried");
    await ledger.books.counts();
    expect(await owed()).toEqual([key]);
  });

  it("gives the payer's new signature attempts again, so often in a day", async () => {
    const { ledger, time } = place();
    const again = async (): Promise<string> => {
      const claim = await ledger.step(key, { kind: "claim", terms: by(PAYER_ELSEWHERE) });
      if (claim.kind !== "settled") return claim.kind;
      for (let attempt = claim.attempts; attempt < MAX_DELIVERY_ATTEMPTS; attempt += 1) {
        expect(await ledger.step(key, { kind: "delivering", sale: sale(PAYER_ELSEWHERE) })).toBe(
          true,
        );
        await ledger.step(key, { kind: "undelivered", broken: UNANSWERED });
      }
      return claim.kind;
    };
    await bring(ledger, payment, "exhausted");
    expect(await ledger.step(key, { kind: "claim", terms: termsOf(payment) })).toMatchObject({
      kind: "exhausted",
      isRenewable: true,
    });
    expect(await ledger.step(key, { kind: "delivering", sale: sale({}) })).toBe(false);
    for (let day = 0; day < 2; day += 1) {
      for (let renewal = 0; renewal < MAX_RENEWALS; renewal += 1) {
        expect(await again()).toBe("settled");
      }
      expect(await again()).toBe("exhausted");
      expect(await ledger.step(key, { kind: "delivering", sale: sale(PAYER_ELSEWHERE) })).toBe(
        false,
      );
      expect(await ledger.step(key, { kind: "claim", terms: by(PAYER_ELSEWHERE) })).toMatchObject({
        isRenewable: false,
      });
      time.nowMs += RENEWAL_WINDOW_MS;
    }
  });

  it("a settlement that is found after its failure was told is owed", async () => {
    const { ledger } = place();
    await bring(ledger, payment, "claimfailed");
    expect(await owed()).toEqual([]);
    await ledger.step(key, { kind: "settled", settlement: SETTLEMENT });
    expect(await owed()).toEqual([key]);
  });

  it("what a facilitator's caller settles is owed to nobody here", async () => {
    const { ledger } = place();
    await bring(ledger, payment, "begunHanded");
    await ledger.step(key, { kind: "leave" });
    expect(await owed()).toEqual([]);
  });
}
