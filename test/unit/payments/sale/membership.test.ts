/** Who is a member, or has a purchase that grants more: what he has for that, and nobody else. */
import { describe, expect, test } from "vitest";
import type { Grant, Memberships } from "../../../../src/payments/sale/payment-service.ts";
import type { TextSigners } from "../../../../src/mechanism/mechanism.ts";
import type { BuyerSession } from "../../../../src/x402/session.ts";
import type { SignIn } from "../../../../src/x402/sign-in.ts";
import { usesPot, type PotDraw } from "../../../../src/ledger/ledger.ts";
import { creditsPot } from "../../../../src/ledger/pots.ts";
import { networkOf } from "../../../../src/x402/network.ts";
import type { PaymentKey } from "../../../../src/x402/payment-key.ts";
import { examplePayment, PAYER } from "../../ledger/example-payment.ts";
import { SETTLEMENT, termsOf } from "../../ledger/ledger-driver.ts";
import { paidOf, paywallStage, presented, sold, type PaywallStage } from "./paywall-stage.ts";

const { payment: _payment, accepts: _accepts, ...asked } = presented();
const elsewhere = { ...asked, client: "198.51.100.7", binding: "GET /else", target: "/else" };
const ROUTE = "GET /premium-data";
const HOUR_MS = 3_600_000;
const GRANT = { route: ROUTE, forMs: HOUR_MS, times: null };
const MEMBER: Memberships = { key: "free", code: "none" };
const NOBODY: Memberships = { key: "none", code: "none" };

class Signers implements TextSigners {
  hasKey = true;
  hasCode = false;
  readonly asked: string[] = [];

  hasKeySigned(): boolean {
    return this.hasKey;
  }

  async hasCodeSigned(network: string): Promise<boolean> {
    this.asked.push(network);
    return this.hasCode;
  }
}

async function stage(): Promise<PaywallStage & { readonly signers: Signers }> {
  const signers = new Signers();
  return { ...(await paywallStage({ signers })), signers };
}

let signed = 0;
function signIn({ time }: PaywallStage, changes: Partial<SignIn> = {}): SignIn {
  const nonce = (signed += 1).toString(16).padStart(32, "0");
  const said = { address: PAYER, network: "base-sepolia", message: "", signature: "0x" } as const;
  return { ...said, nonce, untilMs: time.now() + 300_000, ...changes };
}

function session({ time }: PaywallStage, changes: Partial<BuyerSession> = {}): BuyerSession {
  const issuedMs = time.now();
  const until = { issuedMs, untilMs: issuedMs + HOUR_MS };
  const account = { address: PAYER, network: "base-sepolia", hasKey: true } as const;
  return { kind: "session", ...account, ...until, ...changes };
}

async function buy(at: PaywallStage): Promise<void> {
  await paidOf(await at.paywall.admit({ ...presented(), route: ROUTE })).delivered(sold());
}

/** How a request for something else ends: `granted`, `recognized`, or the code of its refusal. */
async function asks(
  at: PaywallStage,
  who: SignIn | BuyerSession,
  memberships: Memberships,
  sold: Grant | "free-first" | null = null,
): Promise<string | undefined> {
  const hasQuota = sold === "free-first";
  const grants = sold === null || sold === "free-first" ? [] : [sold];
  const terms = { memberships, grants, hasQuota };
  const admission = await at.paywall.admitSignedIn(who, elsewhere, terms);
  if (admission.kind === "recognized") {
    return admission.granted.length > 0 ? "granted" : "recognized";
  }
  return admission.kind === "refused" ? admission.refusal.codeV2 : admission.kind;
}

describe("a member", () => {
  test("is recognized by a sign-in, which is used by that where it costs nothing", async () => {
    const at = await stage();
    const once = signIn(at);
    expect(await asks(at, once, MEMBER)).toBe("recognized");
    expect(await asks(at, once, MEMBER)).toBe("invalid_siwx_nonce");
    const cheaper = signIn(at);
    expect(await asks(at, cheaper, { key: "priced", code: "none" })).toBe("recognized");
    expect(await asks(at, cheaper, { key: "priced", code: "none" })).toBe("recognized");
    expect(await asks(at, signIn(at), NOBODY)).toBe("invalid_siwx_no_purchase");
  });

  test("is recognized by a session as often as it is shown", async () => {
    const at = await stage();
    const shown = session(at);
    expect(await asks(at, shown, MEMBER)).toBe("recognized");
    expect(await asks(at, shown, MEMBER)).toBe("recognized");
    expect(await asks(at, shown, NOBODY)).toBe("recognized");
  });

  test("is nobody by a signature that is none", async () => {
    const at = await stage();
    at.signers.hasKey = false;
    expect(await asks(at, signIn(at), MEMBER)).toBe("invalid_siwx_signature");
    expect(at.signers.asked).toEqual([]);
    const byCode: Memberships = { key: "free", code: "free" };
    expect(await asks(at, signIn(at), byCode)).toBe("invalid_siwx_signature");
    at.signers.hasCode = true;
    expect(await asks(at, signIn(at), byCode)).toBe("recognized");
  });
});

describe("what a purchase grants", () => {
  test("is had by whoever has paid, by each sign-in once, for its time", async () => {
    const at = await stage();
    const before = signIn(at);
    expect(await asks(at, before, NOBODY, GRANT)).toBe("invalid_siwx_no_purchase");
    await buy(at);
    const once = signIn(at);
    expect(await asks(at, once, NOBODY, GRANT)).toBe("granted");
    expect(await asks(at, once, NOBODY, GRANT)).toBe("invalid_siwx_nonce");
    expect(await asks(at, session(at), NOBODY, GRANT)).toBe("granted");
    await at.time.advance(HOUR_MS - 1);
    expect(await asks(at, session(at), NOBODY, GRANT)).toBe("granted");
    await at.time.advance(1);
    expect(await asks(at, session(at), NOBODY, GRANT)).toBe("recognized");
    expect(at.facilitator.settled).toHaveLength(1);
  });

  test("is of that route, of that account, and of its chain where code has signed", async () => {
    const at = await stage();
    await buy(at);
    const other = { ...GRANT, route: "GET /another" };
    expect(await asks(at, session(at), NOBODY, other)).toBe("recognized");
    const stranger = `0x${"12".repeat(20)}`;
    expect(await asks(at, session(at, { address: stranger }), NOBODY, GRANT)).toBe("recognized");
    const byKey = session(at, { network: "base" });
    expect(await asks(at, byKey, NOBODY, GRANT)).toBe("granted");
    expect(await asks(at, { ...byKey, hasKey: false }, NOBODY, GRANT)).toBe("recognized");
  });
});

describe("counted uses of a purchase", () => {
  const TWICE = { ...GRANT, times: 2 };
  const grantedTo = async (at: PaywallStage, grants: readonly Grant[]) => {
    const terms = { memberships: NOBODY, grants, hasQuota: false };
    const admission = await at.paywall.admitSignedIn(session(at), elsewhere, terms);
    return admission.kind === "recognized" ? admission.granted : [];
  };

  test("are granted as long as the purchase has some left, and for its time", async () => {
    const at = await stage();
    await buy(at);
    const [granted, ...more] = await grantedTo(at, [TWICE]);
    expect(more).toEqual([]);
    expect(granted).toMatchObject({ times: 2, untilMs: at.time.now() + HOUR_MS });
    const pot = usesPot(granted?.key as PaymentKey);
    const use = (turn: number, amount: bigint): PotDraw => ({
      pot,
      turn,
      chunks: amount === 0n ? [] : [{ turn, uses: [{ route: ROUTE, amount, count: 1 }] }],
      isHeld: turn > 1,
      base: 0n,
      first: turn > 1 ? 0n : 2n,
      wish: turn > 1 ? 0n : 2n,
      opens: { amount: 2n, untilMs: granted?.untilMs ?? 0 },
    });
    await at.ledger.pots.draw([use(1, 0n)]);
    // Leased to somebody is not used up.
    expect(await grantedTo(at, [TWICE])).toHaveLength(1);
    await at.ledger.pots.draw([use(2, 1n)]);
    expect(await grantedTo(at, [TWICE])).toHaveLength(1);
    await at.ledger.pots.draw([{ ...use(3, 0n), isHeld: false, first: 1n, wish: 1n }]);
    await at.ledger.pots.draw([use(4, 1n)]);
    expect(await grantedTo(at, [TWICE])).toEqual([]);
    // What is not counted is granted all the same.
    expect(await grantedTo(at, [GRANT])).toMatchObject([{ times: null }]);
    expect(await grantedTo(at, [{ ...TWICE, route: "GET /another" }, GRANT])).toHaveLength(1);
    await at.time.advance(HOUR_MS);
    expect(await grantedTo(at, [GRANT])).toEqual([]);
  });
});

describe("who has signed in where some is free", () => {
  test("is recognized by a key, and his sign-in is not remembered", async () => {
    const at = await stage();
    const once = signIn(at);
    expect(await asks(at, once, NOBODY, "free-first")).toBe("recognized");
    expect(await asks(at, once, NOBODY, "free-first")).toBe("recognized");
    expect(await asks(at, once, MEMBER)).toBe("recognized");
    expect(await asks(at, once, MEMBER)).toBe("invalid_siwx_nonce");
    at.signers.hasKey = false;
    at.signers.hasCode = true;
    expect(await asks(at, signIn(at), NOBODY, "free-first")).toBe("invalid_siwx_signature");
    expect(at.signers.asked).toEqual([]);
  });
});

describe("a session is given", () => {
  const open = async (at: PaywallStage, who: SignIn, memberships = NOBODY) => {
    const opened = await at.paywall.openSession(who, memberships, "198.51.100.7");
    if (opened.ok) return opened.value;
    return opened.error.kind === "refused" ? opened.error.refusal.codeV2 : opened.error.kind;
  };

  test("to members and to those who have paid, once for each sign-in; to strangers none", async () => {
    const at = await stage();
    const account = { address: PAYER, network: "base-sepolia", hasKey: true };
    expect(await open(at, signIn(at))).toBe("invalid_siwx_no_purchase");
    const member = signIn(at, { address: PAYER.toLowerCase() });
    expect(await open(at, member, MEMBER)).toEqual(account);
    expect(await open(at, member, MEMBER)).toBe("invalid_siwx_nonce");
    await buy(at);
    expect(await open(at, signIn(at))).toEqual(account);
  });

  test("for what code says on the chain on which it was asked, and where something hangs on it", async () => {
    const at = await stage();
    at.signers.hasKey = false;
    at.signers.hasCode = true;
    expect(await open(at, signIn(at))).toBe("invalid_siwx_signature");
    expect(at.signers.asked).toEqual([]);
    await buy(at);
    expect(await open(at, signIn(at, { network: "base" }))).toBe("invalid_siwx_signature");
    expect(await open(at, signIn(at))).toMatchObject({ hasKey: false, network: "base-sepolia" });
  });

  test("to whoever has prepaid, on all chains of his key's kind; of code on its own alone", async () => {
    const at = await stage();
    const [byKey, byCode] = [`0x${"12".repeat(20)}`, `0x${"34".repeat(20)}`];
    const network = networkOf("base-sepolia");
    const fills = [creditsPot(network, byKey), creditsPot(network, byCode, "base-sepolia")];
    for (const [number, pot] of fills.entries()) {
      const { key, request } = examplePayment(700 + number);
      const terms = termsOf({ request }, { fills: { pot, amount: 5n }, idempotencyKey: key });
      await at.ledger.step(key, { kind: "claim", terms });
      await at.ledger.step(key, { kind: "settled", settlement: SETTLEMENT });
    }
    const here = { address: byKey, network: "base-sepolia" } as const;
    expect(await open(at, signIn(at, here))).toMatchObject({ address: byKey });
    expect(await open(at, signIn(at, { ...here, network: "polygon" }))).toMatchObject({
      network: "polygon",
    });
    expect(await open(at, signIn(at, { ...here, address: byCode }))).toBe(
      "invalid_siwx_no_purchase",
    );
    at.signers.hasKey = false;
    at.signers.hasCode = true;
    expect(await open(at, signIn(at, here))).toBe("invalid_siwx_signature");
    const code = { address: byCode, network: "base-sepolia" } as const;
    expect(await open(at, signIn(at, { ...code, network: "polygon" }))).toBe(
      "invalid_siwx_signature",
    );
    expect(at.signers.asked).toEqual([]);
    expect(await open(at, signIn(at, code))).toMatchObject({ address: byCode, hasKey: false });
    // What is in use is his, too, and what is used up is nobody's.
    const [pot = ""] = fills;
    const ask = { pot, chunks: [], isHeld: false, base: 0n, wish: 0n };
    await at.ledger.pots.draw([{ ...ask, turn: 1, first: 5n }]);
    at.signers.hasKey = true;
    expect(await open(at, signIn(at, here))).toMatchObject({ address: byKey });
    const uses = [{ route: ROUTE, amount: 5n, count: 1 }];
    await at.ledger.pots.draw([
      { ...ask, turn: 2, isHeld: true, first: 0n, chunks: [{ turn: 2, uses }] },
    ]);
    expect(await open(at, signIn(at, here))).toBe("invalid_siwx_no_purchase");
  });
});
