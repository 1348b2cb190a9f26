import { describe, expect, it } from "vitest";
import { draftAnswer, NO_DRAFTS, type Drafts } from "../../../../src/gateway/offers/drafts.ts";
import { caip2Of } from "../../../../src/x402/version-2.ts";
import { Offers, type FeePayers } from "../../../../src/payments/sale/offers.ts";
import {
  FEE_PAYER,
  MINT,
  NETWORK,
  PAYEE,
  PAYER,
  solanaRequirements,
} from "../../payments/sale/solana-payment.ts";

const { resource, extra: _extra, ...offer } = solanaRequirements();
const header = `${NETWORK} ${MINT} ${PAYER}`;
const drafts: Drafts = {
  ...NO_DRAFTS,
  networks: new Set([NETWORK]),
  draft: async () => "AQID",
};
const said = { error: "pay", errorV2: "pay now" };
const question = { header, resource, said, lines: ["X-Cors", "1"] };

/** Who pays the network fee, for as long as somebody does. */
class Payers implements FeePayers {
  revision = 0;
  #known: string | undefined = FEE_PAYER;

  lose(): void {
    this.#known = undefined;
    this.revision += 1;
  }

  offered(): string | undefined {
    return this.#known;
  }

  isKnown(): boolean {
    return true;
  }
}

describe("a 402 with a transaction", () => {
  it("is the 402 that everybody gets, with the transaction beside it", async () => {
    const offers = new Offers([offer], new Payers());
    const answer = await draftAnswer(drafts, { ...question, offers });
    const plain = JSON.parse(offers.question(said, resource) ?? "");
    const quote = offers.quoteLines(said, resource);
    expect(answer).toMatchObject({ status: 402, lines: [...question.lines, ...quote] });
    expect(JSON.parse(answer.body ?? "")).toEqual({ ...plain, draft: "AQID" });
  });

  it.each([PAYEE, FEE_PAYER])("is not for who would pay himself: %s", async (payer) => {
    const offers = new Offers([offer], new Payers());
    const asked = { ...question, header: `${NETWORK} ${MINT} ${payer}`, offers };
    expect(await draftAnswer(drafts, asked)).toMatchObject({ status: 400 });
  });

  it("is asked for as the version names its network, and has a memo in version 2 alone", async () => {
    const offers = new Offers([offer], new Payers(), { memo: "book 17" });
    const asked: unknown[] = [];
    const draft: Drafts["draft"] = async ({ network, extra }) => {
      asked.push([network, extra]);
      return "AQID";
    };
    for (const named of [NETWORK, caip2Of(NETWORK), "solana:nowhere"]) {
      const header = `${named} ${MINT} ${PAYER}`;
      await draftAnswer({ ...drafts, draft }, { ...question, header, offers });
    }
    const feePayer = FEE_PAYER;
    expect(asked).toEqual([
      [NETWORK, { feePayer }],
      [NETWORK, { feePayer, memo: "book 17" }],
    ]);
  });

  it("is 503 where the fee payer is lost while it is written", async () => {
    const payers = new Payers();
    const writing = async (): Promise<string> => {
      payers.lose();
      return "AQID";
    };
    const offers = new Offers([offer], payers);
    const answer = await draftAnswer({ ...drafts, draft: writing }, { ...question, offers });
    expect(answer.status).toBe(503);
    expect(JSON.parse(answer.body ?? "")).toHaveProperty("error");
  });
});
