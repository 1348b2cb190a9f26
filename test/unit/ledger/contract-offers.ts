/** Claims that no account of the claiming life can sign, and who takes them. */
import { describe, expect, it } from "vitest";
import type { OpenLedger } from "../../support/ledger-contract.ts";
import { eachTestIn } from "./contract-place.ts";
import { examplePayment } from "./example-payment.ts";
import { bring, NETWORK, sign, termsOf, word, takeOffers } from "./ledger-driver.ts";

export function describeOffers(open: OpenLedger): void {
  const place = eachTestIn(open);

  describe("offers claims to be signed by others", () => {
    it("of that network, the oldest first, each to one taker", async () => {
      const { ledger, time } = place();
      const payments = [3, 1, 2].map(examplePayment);
      for (const payment of payments) {
        time.nowMs += 1000;
        await bring(ledger, payment, "begunoffered");
      }
      expect(await takeOffers(ledger, "base", 10)).toEqual([]);
      const taken = [
        ...(await takeOffers(ledger, NETWORK, 2)),
        ...(await takeOffers(ledger, NETWORK, 2)),
      ];
      const isPublic = false;
      const version = 2;
      expect(taken).toEqual(
        payments.map(({ key, request }) => ({ key, request, isPublic, version })),
      );
      expect(await takeOffers(ledger, NETWORK, 2)).toEqual([]);
      const { payments: signed } = await sign(ledger, payments);
      expect(signed).toHaveLength(3);
    });

    it("and say again whose it is to whoever has taken one and did not hear it", async () => {
      const { ledger } = place();
      const payment = examplePayment(1);
      const { key } = payment;
      await bring(ledger, payment, "offered");
      const [offer] = await ledger.queues.offers(NETWORK, 1);
      const take = { kind: "take", version: offer?.version ?? 0 } as const;
      expect(await ledger.step(key, take)).toBe("taken");
      expect(await ledger.step(key, take)).toBe("ours");
      expect(await ledger.queues.offers(NETWORK, 1)).toEqual([]);
      // Another offer of the same claim is another thing.
      await ledger.step(key, { kind: "offer" });
      expect(await ledger.step(key, take)).toBe("gone");
      const [again] = await ledger.queues.offers(NETWORK, 1);
      expect(again?.version).toBe(take.version + 2);
      await ledger.step(key, { kind: "take", version: take.version + 2 });
      expect(await ledger.step(key, take)).toBe("gone");
    });

    it("and takes none that was signed, settled or failed in the meantime", async () => {
      const { ledger } = place();
      const [signed, handed] = [examplePayment(1), examplePayment(2)];
      await bring(ledger, signed, "offered");
      await bring(ledger, handed, "offered");
      await sign(ledger, [signed]);
      await ledger.step(handed.key, {
        kind: "handedOver",
        facilitator: "https://elsewhere.example.com",
      });
      expect(await takeOffers(ledger, NETWORK, 10)).toEqual([]);
    });

    it("and may be offered again by who took one", async () => {
      const { ledger } = place();
      const payment = examplePayment(1);
      await bring(ledger, payment, "offered");
      await takeOffers(ledger, NETWORK, 1);
      expect(
        await word(
          ledger.step(payment.key, { kind: "begin", request: payment.request, caller: undefined }),
        ),
      ).toBe("taken");
      expect(await ledger.step(payment.key, { kind: "offer" })).toBe(true);
      expect(await takeOffers(ledger, NETWORK, 1)).toHaveLength(1);
      await ledger.step(payment.key, { kind: "released" });
      expect(await word(ledger.step(payment.key, { kind: "claim", terms: termsOf(payment) }))).toBe(
        "granted",
      );
    });

    it("and wakes those who wait for one", async () => {
      const { ledger } = place();
      const payment = examplePayment(1);
      await bring(ledger, payment, "claimed");
      const waits = [1, 2].map(() => ledger.queues.offered(AbortSignal.timeout(15_000)));
      await ledger.step(payment.key, { kind: "offer" });
      const before = performance.now();
      await Promise.all(waits);
      expect(performance.now() - before).toBeLessThan(10_000);
    });

    it("and lets nobody wait longer than its signal", async () => {
      const { ledger } = place();
      await ledger.queues.offered(AbortSignal.abort());
      const controller = new AbortController();
      const wait = ledger.queues.offered(controller.signal);
      controller.abort();
      await wait;
    });
  });
}
