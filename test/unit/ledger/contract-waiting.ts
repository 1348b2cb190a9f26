/** Waiting for a row to change. */
import { describe, expect, it } from "vitest";
import type { Ledger } from "../../../src/ledger/ledger.ts";
import type { OpenLedger } from "../../support/ledger-contract.ts";
import { eachTestIn } from "./contract-place.ts";
import { examplePayment, type ExamplePayment } from "./example-payment.ts";
import {
  bring,
  FACILITATOR,
  FAILURE,
  NETWORK,
  SETTLEMENT,
  sign,
  termsOf,
  takeOffers,
} from "./ledger-driver.ts";

const NEVER = new AbortController().signal;

export function describeWaiting(open: OpenLedger): void {
  const place = eachTestIn(open);
  const payment = examplePayment(1);
  const { key, request } = payment;

  /** The version that a settlement which is not decided tells. */
  async function versionOf(ledger: Ledger): Promise<number> {
    const outcome = await ledger.outcome(key);
    if (outcome.kind !== "pending") throw new Error(`the outcome is ${outcome.kind}`);
    return outcome.version;
  }

  describe("lets wait for a change", () => {
    const changes: readonly [
      string,
      (ledger: Ledger, payment: ExamplePayment) => Promise<unknown>,
    ][] = [
      ["signed", (ledger, each) => sign(ledger, [each])],
      [
        "handed over",
        (ledger, each) => ledger.step(each.key, { kind: "handedOver", facilitator: FACILITATOR }),
      ],
      [
        "settled",
        (ledger, each) => ledger.step(each.key, { kind: "settled", settlement: SETTLEMENT }),
      ],
      ["failed", (ledger, each) => ledger.step(each.key, { kind: "failed", failure: FAILURE })],
      ["offered", (ledger, each) => ledger.step(each.key, { kind: "offer" })],
      ["released", (ledger, each) => ledger.step(each.key, { kind: "released" })],
    ];
    for (const [name, change] of changes) {
      it(`when it is ${name}`, async () => {
        const { ledger } = place();
        await bring(ledger, payment, "claimed");
        const version = await versionOf(ledger);
        const waits = [1, 2, 3].map(async () => ledger.changed(key, version, NEVER));
        await change(ledger, payment);
        await Promise.all(waits);
      });
    }

    it("through a whole life, version by version", async () => {
      const { ledger } = place();
      await bring(ledger, payment, "claimed");
      const seen: string[] = [];
      const watch = (async () => {
        for (;;) {
          const outcome = await ledger.outcome(key);
          seen.push(outcome.kind);
          if (outcome.kind !== "pending") return;
          await ledger.changed(key, outcome.version, NEVER);
        }
      })();
      await ledger.step(key, { kind: "offer" });
      await takeOffers(ledger, NETWORK, 1);
      await sign(ledger, [payment]);
      await ledger.step(key, { kind: "settled", settlement: SETTLEMENT });
      await watch;
      expect(seen.at(-1)).toBe("settled");
      expect(seen.length).toBeLessThan(10);
    });

    it("for the end of a delivery, with the version that `busy` tells", async () => {
      const { ledger } = place();
      await bring(ledger, payment, "delivering");
      const busy = await ledger.step(key, { kind: "claim", terms: termsOf(payment) });
      if (busy.kind !== "busy") throw new Error(`it is ${busy.kind}`);
      const wait = ledger.changed(key, busy.version, NEVER);
      await ledger.step(key, { kind: "delivered" });
      await wait;
    });

    it("and ends at once where it has changed already, or where there is no row", async () => {
      const { ledger } = place();
      await bring(ledger, payment, "claimed");
      const version = await versionOf(ledger);
      await ledger.step(key, { kind: "handedOver", facilitator: FACILITATOR });
      await ledger.changed(key, version, NEVER);
      await ledger.changed(examplePayment(2).key, 1, NEVER);
    });

    it("and ends with its signal, before or while it waits", async () => {
      const { ledger } = place();
      await ledger.step(key, { kind: "begin", request, caller: undefined });
      const version = await versionOf(ledger);
      await ledger.changed(key, version, AbortSignal.abort());
      const controller = new AbortController();
      const wait = ledger.changed(key, version, controller.signal);
      controller.abort();
      await wait;
    });
  });
}
