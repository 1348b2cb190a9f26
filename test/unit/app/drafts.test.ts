/** Who can be written a transaction, and how many. */
import { describe, expect, it } from "vitest";
import { draftDesk, LocalDrafts, MAX_A_SECOND, RemoteDrafts } from "../../../src/app/drafts.ts";
import { DryGateway } from "../../../src/diagnosis/dry-gateway.ts";
import { solanaRequirements } from "../payments/sale/solana-payment.ts";
import { ManualTime } from "../../support/manual-time.ts";
import { configOf, SOLANA_ADDRESS } from "./config-of.ts";

const requirement = solanaRequirements();
const { network } = requirement;
const hint = { recentBlockhash: "7".repeat(44), lastValidBlockHeight: "12" };
const writing = {
  draft: async (_: unknown, payer: string) => `for ${payer}`,
  blockhash: async () => hint,
};

describe("transactions for buyers", () => {
  it("are written only where a chain can be asked", async () => {
    const drafts = new LocalDrafts(
      new Map<string, object>([
        [network, writing],
        ["base", {}],
      ]),
      new ManualTime(),
    );
    expect([...drafts.networks]).toEqual([network]);
    expect(await drafts.draft(requirement, "me")).toBe("for me");
    await expect(drafts.draft({ ...requirement, network: "base" }, "me")).rejects.toThrow("nobody");
    expect(await drafts.blockhash(network)).toEqual(hint);
    await expect(drafts.blockhash("base")).rejects.toThrow("nobody");
  });

  it("have a limit for all buyers together", async () => {
    const time = new ManualTime();
    const drafts = new LocalDrafts(new Map([[network, writing]]), time);
    for (let count = 0; count < MAX_A_SECOND; count += 1) await drafts.draft(requirement, "me");
    await expect(drafts.draft(requirement, "me")).rejects.toThrow("too many");
    await time.advance(1_000);
    expect(await drafts.draft(requirement, "me")).toBe("for me");
  });

  it("are asked for by workers in the process with the chains", async () => {
    const local = new LocalDrafts(new Map([[network, writing]]), new ManualTime());
    const desk = draftDesk(local);
    const channel = {
      call: async (name: string, values: readonly unknown[]) => {
        return desk[name]?.(structuredClone(values), new AbortController().signal);
      },
    };
    const remote = new RemoteDrafts(channel, [network]);
    expect([...remote.networks]).toEqual([network]);
    expect(await remote.draft(requirement, "me")).toBe("for me");
    expect(await remote.blockhash(network)).toEqual(hint);
  });
});

function text(more: string): string {
  return `
upstream: http://127.0.0.1:9
publicUrl: https://api.example.com
payTo: { evm: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C", solana: ${SOLANA_ADDRESS} }
accept: [base, solana]
facilitator:
  remote: [{ url: "https://facilitator.example.com" }]
${more}
unmatched: deny
routes:
  GET /weather: { price: $0.01, description: Weather }
`;
}

describe("the page of a route that others settle", () => {
  const accept = "text/html,application/xhtml+xml,*/*;q=0.8";

  function page(more = ""): { readonly type: string; readonly body: string } {
    const gateway = new DryGateway(configOf(text(more)));
    const asked = { method: "GET", target: "/weather", headers: ["Accept", accept] };
    const { answer } = gateway.ask(asked);
    expect(answer?.status).toBe(402);
    const { lines = [], body = "" } = answer ?? {};
    const type = lines[lines.indexOf("Content-Type") + 1] ?? "";
    return { type, body };
  }

  it("says that Solana is for programs where no chain can be asked", () => {
    const { type, body } = page();
    expect(type).toBe("text/html; charset=utf-8");
    expect(body).toContain("Programs can pay on Solana, too; this page cannot.");
    expect(body).not.toContain("solana:mainnet");
  });

  it("offers Solana where a chain can be asked", () => {
    const { body } = page('  rpc: { solana: ["https://rpc.example.com/?key=secret"] }');
    expect(body).toContain("solana:mainnet");
    expect(body).not.toContain("Programs can pay");
    expect(body).not.toContain("rpc.example.com");
  });

  it.each([
    ["", "PAYMENT-SIGNATURE"],
    ["protocol: { v1: false }", "PAYMENT-SIGNATURE"],
    ["protocol: { v2: false }", "X-PAYMENT"],
  ])("pays by version 2 where that is spoken: %s", (more, header) => {
    expect(page(more).body).toContain(`name:\`${header}\``);
  });

  it("is not there where the configuration wants none", () => {
    expect(page("paywall: { page: false }").type).toBe("application/json");
    expect(page("paywall: { brand: Weather & Sons }").body).toContain("Weather &amp; Sons");
  });
});
