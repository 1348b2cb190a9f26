/** Who has signed in gets what his account has bought, for nothing, once for each sign-in. */
import { describe, expect, test, vi } from "vitest";
import { MAX_SIGN_INS_PER_PAYER } from "../../../../src/ledger/sign-ins.ts";
import { LedgerUnavailable, type Redemptions } from "../../../../src/ledger/ledger.ts";
import { ChainError, type TextSigners } from "../../../../src/mechanism/mechanism.ts";
import type { SignIn } from "../../../../src/x402/sign-in.ts";
import { examplePayment, PAYER } from "../../ledger/example-payment.ts";
import {
  collectedOf,
  paidOf,
  paywallStage,
  presented,
  sold,
  stateOf,
  type PaywallStage,
} from "./paywall-stage.ts";

const STRANGER = `0x${"12".repeat(20)}`;
const { payment: _payment, accepts: _accepts, ...asked } = presented();
const { binding, target } = asked;
const elsewhere = { ...asked, client: "198.51.100.7" };

/** Keys and code that say what a test wants of them. */
class Signers implements TextSigners {
  hasKey = true;
  code: () => boolean = () => false;
  readonly asked: string[] = [];

  hasKeySigned(): boolean {
    return this.hasKey;
  }

  async hasCodeSigned(network: string): Promise<boolean> {
    this.asked.push(network);
    return this.code();
  }
}

async function stage(
  redemptions?: (ledger: Redemptions) => Redemptions,
): Promise<PaywallStage & { readonly signers: Signers }> {
  const signers = new Signers();
  const opened = await paywallStage({ signers, ...(redemptions && { redemptions }) });
  return { ...opened, signers };
}

/** Sold once, and kept. */
async function buy({ paywall }: PaywallStage, number = 1): Promise<void> {
  await paidOf(await paywall.admit(presented(number))).delivered(sold());
}

let signed = 0;
/** Another one each time. */
function signIn(stage: PaywallStage, changes: Partial<SignIn> = {}): SignIn {
  const nonce = (signed += 1).toString(16).padStart(32, "0");
  const said = { address: PAYER, network: "base-sepolia", message: "", signature: "0x" } as const;
  return { ...said, nonce, untilMs: stage.time.now() + 300_000, ...changes };
}

/** What is said to a sign-in that was not taken, in the words of version 2. */
async function refusalOf(
  stage: PaywallStage,
  changes: Partial<SignIn> = {},
  asked = elsewhere,
): Promise<string | undefined> {
  const admission = await stage.paywall.admitSignedIn(signIn(stage, changes), asked);
  if (admission.kind !== "refused") throw new Error(`not refused: ${admission.kind}`);
  return admission.refusal.codeV2;
}

describe("who has signed in", () => {
  test("gets the answer that was kept, at another address, charged nothing", async () => {
    const at = await stage();
    await buy(at);
    const admission = await at.paywall.admitSignedIn(signIn(at), elsewhere);
    await collectedOf(admission)();
    expect(at.facilitator.settled).toHaveLength(1);
    expect(at.signers.asked).toEqual([]);
    // Whoever has paid has it still.
    collectedOf(await at.paywall.admit(presented()));
  });

  test("gets what is paid and was not delivered", async () => {
    const at = await stage();
    const paid = paidOf(await at.paywall.admit(presented()));
    await paid.undelivered({ sent: true, served: null });
    const again = paidOf(await at.paywall.admitSignedIn(signIn(at), elsewhere));
    await again.delivered(sold());
    expect(await stateOf(at.ledger)).toBe("DELIVERED");
    expect(at.facilitator.settled).toHaveLength(1);
  });

  test("gets nothing of another account, request or sale, and is told so", async () => {
    const at = await stage();
    expect(await refusalOf(at)).toBe("invalid_siwx_no_purchase");
    await buy(at);
    expect(await refusalOf(at, { address: STRANGER })).toBe("invalid_siwx_no_purchase");
    const post = { ...elsewhere, binding: "POST /premium-data" };
    expect(await refusalOf(at, {}, post)).toBe("invalid_siwx_no_purchase");
    const other = { ...elsewhere, target: "/premium-data?day=2" };
    expect(await refusalOf(at, {}, other)).toBe("invalid_siwx_no_purchase");
    expect(await refusalOf(at, { network: "solana" })).toBe("invalid_siwx_no_purchase");
  });

  test("gets nothing of what the ledger finds of somebody whose name is spelled alike", async () => {
    const at = await stage((ledger) => {
      const bought = async () => ledger.signIns.bought(PAYER, { binding, target });
      return new Proxy(ledger, {
        get: (of, name) => {
          const member: unknown = name === "bought" ? bought : Reflect.get(of, name);
          return typeof member === "function" ? member.bind(of) : member;
        },
      });
    });
    await buy(at);
    expect(await refusalOf(at, { address: STRANGER })).toBe("invalid_siwx_no_purchase");
  });

  test("gets nothing a second time by the same sign-in, nor more often than a payment does", async () => {
    const at = await stage();
    await buy(at);
    const once = signIn(at);
    collectedOf(await at.paywall.admitSignedIn(once, elsewhere));
    expect(await refusalOf(at, once)).toBe("invalid_siwx_nonce");
    collectedOf(await at.paywall.admitSignedIn(signIn(at), elsewhere));
    collectedOf(await at.paywall.admitSignedIn(signIn(at), elsewhere));
    expect(await refusalOf(at)).toBe("invalid_siwx_no_purchase");
  });

  test("waits where too many of its sign-ins are remembered; those that get nothing are not", async () => {
    const at = await stage();
    for (let count = 0; count < 3; count += 1) {
      await refusalOf(at, { nonce: "f".repeat(32) });
    }
    await buy(at);
    for (let count = 0; count < MAX_SIGN_INS_PER_PAYER; count += 1) {
      const use = { nonce: `used ${count}`, payer: PAYER, untilMs: at.time.now() + 300_000 };
      expect(await at.ledger.signIns.use(use)).toBe("first");
    }
    const crowded = await at.paywall.admitSignedIn(signIn(at), elsewhere);
    expect(crowded).toEqual({ kind: "limited", seconds: 60 });
  });

  test("is never charged what was dropped while it was looked up", async () => {
    const { request, key } = examplePayment(1);
    const at = await stage((ledger) => {
      const bought = async () => [{ key, request }];
      return new Proxy(ledger, {
        get: (of, name) => {
          const member: unknown = name === "bought" ? bought : Reflect.get(of, name);
          return typeof member === "function" ? member.bind(of) : member;
        },
      });
    });
    expect(await refusalOf(at)).toBe("invalid_siwx_no_purchase");
    expect(at.facilitator.settled).toEqual([]);
    expect(await stateOf(at.ledger)).toBe("(none)");
  });
});

describe("a signature that is no key's of the account", () => {
  test("is good where the account's code says so, on the chain of the purchase", async () => {
    const at = await stage();
    at.signers.hasKey = false;
    await buy(at);
    at.signers.code = () => true;
    expect(await refusalOf(at, { network: "base" })).toBe("invalid_siwx_signature");
    expect(at.signers.asked).toEqual([]);
    collectedOf(await at.paywall.admitSignedIn(signIn(at), elsewhere));
    expect(at.signers.asked).toEqual(["base-sepolia"]);
    at.signers.code = () => false;
    expect(await refusalOf(at)).toBe("invalid_siwx_signature");
  });

  test("has code asked only where something was bought: nobody has it run for nothing", async () => {
    const at = await stage();
    at.signers.hasKey = false;
    at.signers.code = () => true;
    expect(await refusalOf(at)).toBe("invalid_siwx_signature");
    expect(at.signers.asked).toEqual([]);
  });

  test("uses nothing up, and is no refusal while the chain does not answer", async () => {
    const at = await stage();
    at.signers.hasKey = false;
    await buy(at);
    at.signers.code = () => {
      throw new ChainError("CHAIN_BUSY", "too many");
    };
    const once = signIn(at);
    const admission = await at.paywall.admitSignedIn(once, elsewhere);
    expect(admission.kind).toBe("unavailable");
    at.signers.code = () => true;
    collectedOf(await at.paywall.admitSignedIn(once, elsewhere));
  });

  test("is told to ask again while the ledger does not answer, and nothing of a payment", async () => {
    const at = await stage();
    await buy(at);
    const once = signIn(at);
    const down = new LedgerUnavailable("away");
    const looking = vi.spyOn(at.ledger.signIns, "bought").mockRejectedValueOnce(down);
    const admission = await at.paywall.admitSignedIn(once, elsewhere);
    expect(looking).toHaveBeenCalled();
    expect(admission).toMatchObject({
      kind: "unavailable",
      refusal: {
        detail:
          "what this account has here could not be looked up, and nothing was charged; ask again a little later",
      },
    });
    collectedOf(await at.paywall.admitSignedIn(once, elsewhere));
  });
});
