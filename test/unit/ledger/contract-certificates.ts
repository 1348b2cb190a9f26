/** What is kept of certificates that an authority gives. */
import { describe, expect, it } from "vitest";
import type { LedgerCapabilities, OpenLedger } from "../../support/ledger-contract.ts";
import { eachTestIn } from "./contract-place.ts";

export function describeCertificates(open: OpenLedger, { severalLives }: LedgerCapabilities): void {
  const place = eachTestIn(open);

  describe("keeps what belongs to certificates", () => {
    it("by name, the newest text of each, under another revision with each change", async () => {
      const { certificates } = place().ledger;
      const revisions = [await certificates.revision()];
      const put = async (name: string, text: string): Promise<void> => {
        await certificates.put({ name, text });
        revisions.push(await certificates.revision());
      };
      await put("order b.example", "{}");
      await put("certificate a.example", "first");
      await put("certificate a.example", "second");
      expect(await certificates.list()).toEqual([
        { name: "certificate a.example", text: "second" },
        { name: "order b.example", text: "{}" },
      ]);
      await certificates.remove("order b.example");
      revisions.push(await certificates.revision());
      expect(new Set(revisions).size).toBe(revisions.length);
      expect(await certificates.revision()).toBe(revisions.at(-1));
      await certificates.remove("order b.example");
      expect(await certificates.list()).toHaveLength(1);
    });

    it("with the right to ask the authority for one at a time, until its time is over", async () => {
      const { ledger, time } = place();
      const { certificates } = ledger;
      const until = time.now() + 30_000;
      expect(await certificates.lease("one", until)).toBe(true);
      expect(await certificates.lease("two", until)).toBe(false);
      expect(await certificates.lease("one", until + 1)).toBe(true);
      time.nowMs += 30_000;
      expect(await certificates.lease("two", time.now() + 30_000)).toBe(false);
      time.nowMs += 1;
      expect(await certificates.lease("two", time.now() + 30_000)).toBe(true);
      expect(await certificates.lease("one", time.now() + 30_000)).toBe(false);
      // Given back.
      expect(await certificates.lease("two", 0)).toBe(true);
      expect(await certificates.lease("one", time.now() + 30_000)).toBe(true);
    });

    it("and gives the right to another one that a clock far ahead has taken", async () => {
      const { ledger, time } = place();
      const { certificates } = ledger;
      time.nowMs += 86_400_000;
      expect(await certificates.lease("one", time.now() + 30_000)).toBe(true);
      time.nowMs -= 86_400_000;
      expect(await certificates.lease("two", time.now() + 30_000)).toBe(true);
      expect(await certificates.lease("one", time.now() + 30_000)).toBe(false);
    });

    if (!severalLives) return;
    it("for everybody who shares the ledger, one of whom may ask", async () => {
      const one = place().ledger.certificates;
      const two = (await place().live("two")).certificates;
      const untilMs = place().time.now() + 30_000;
      const rights = await Promise.all([one.lease("one", untilMs), two.lease("two", untilMs)]);
      expect(rights.filter(Boolean)).toHaveLength(1);
      await one.put({ name: "certificate a.example", text: "cert" });
      expect(await two.revision()).toBe(await one.revision());
      expect(await two.list()).toEqual(await one.list());
    });
  });
}
