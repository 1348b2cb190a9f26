import { inspect } from "node:util";
import { describe, expect, test } from "vitest";
import {
  createEvmMechanism,
  VALID_BEFORE_MARGIN_SECONDS,
  type EvmMechanismOptions,
} from "../../../../src/mechanism/evm/evm.ts";
import { networkOf } from "../../../../src/x402/network.ts";
import type { EvmAuthorization, PaymentRequirements } from "../../../../src/x402/x402.ts";
import {
  freshAccount,
  requirementsFor,
  signPayment,
  type EvmPayment,
  type SignOptions,
} from "../../../support/payer.ts";

const NOW = 1_800_000_000;
const MARGIN = VALID_BEFORE_MARGIN_SECONDS;
const payer = freshAccount();
const payee = freshAccount();
const signer = freshAccount();
const requirements = requirementsFor("base-sepolia", { payTo: payee.address });

function network() {
  const facts = networkOf("base-sepolia");
  if (facts.kind !== "evm") throw new Error("base-sepolia is an EVM network");
  return facts;
}

function mechanism(members: Partial<EvmMechanismOptions> = {}) {
  return createEvmMechanism({
    network: network(),
    assets: [network().asset],
    rpcUrls: ["http://127.0.0.1:9"],
    keys: [signer.privateKey],
    clock: () => NOW,
    allowPayTo: [payee.address],
    ...members,
  });
}

const evm = mechanism();

function sign(options: Partial<SignOptions> = {}): Promise<EvmPayment> {
  return signPayment({ account: payer.account, requirements, now: NOW, ...options });
}

async function check(
  options: Partial<SignOptions> = {},
  changes: Partial<PaymentRequirements> = {},
  now = NOW,
) {
  const paymentPayload = await sign(options);
  return evm.check({ paymentPayload, paymentRequirements: { ...requirements, ...changes } }, now);
}

/** The fault found with these members in the authorization, properly signed; null when there is none. */
async function faultOf(overrides: Partial<EvmAuthorization>, now = NOW) {
  const checked = await check({ overrides }, {}, now);
  if (!checked.ok) throw new Error(`refused: ${checked.error.detail}`);
  expect(checked.value.proven).toBe(true);
  return checked.value.fault?.code ?? null;
}

async function refusalOf(
  changes: Partial<PaymentRequirements>,
  options: Partial<SignOptions> = {},
) {
  const checked = await check(options, changes);
  return checked.ok ? "accepted" : checked.error.code;
}

function upper(text: string): string {
  return `0x${text.slice(2).toUpperCase()}`;
}

/** Changes the signature after signing. */
function signature(change: (hex: string) => string): Partial<SignOptions> {
  return {
    corrupt: (payment) => ({
      ...payment,
      payload: { ...payment.payload, signature: change(payment.payload.signature) },
    }),
  };
}

/** Changes a member of the authorization after signing. */
function member(name: keyof EvmAuthorization, value: string): Partial<SignOptions> {
  return {
    corrupt: (payment) => ({
      ...payment,
      payload: {
        ...payment.payload,
        authorization: { ...payment.payload.authorization, [name]: value },
      },
    }),
  };
}

describe("a correct payment", () => {
  test("is proven and without fault", async () => {
    const checked = await check();
    expect(checked).toMatchObject({
      ok: true,
      value: { payer: payer.address, proven: true, fault: null },
    });
  });

  test("is the same in any letter case of its addresses", async () => {
    const paymentPayload = await sign();
    const { authorization, signature } = paymentPayload.payload;
    const { from, to, nonce } = authorization;
    const spelled = {
      ...paymentPayload,
      payload: {
        signature: upper(signature),
        authorization: { ...authorization, from: upper(from), to: upper(to), nonce: upper(nonce) },
      },
    };
    const asset = requirements.asset.toLowerCase();
    const checked = evm.check(
      { paymentPayload: spelled, paymentRequirements: { ...requirements, asset } },
      NOW,
    );
    expect(checked).toMatchObject({ ok: true, value: { proven: true, fault: null } });
  });

  test("may pay more than is required", async () => {
    expect(await faultOf({ value: String(2n ** 256n - 1n) })).toBeNull();
  });

  test("is read, not judged, from a stored request whose window is long over", async () => {
    const paymentPayload = await sign({ now: NOW - 1_000_000 });
    const parsed = evm.parse({ paymentPayload, paymentRequirements: requirements });
    expect(parsed).toMatchObject({ ok: true, value: { proven: true, value: 10_000n } });
  });
});

describe("the window of an authorization", () => {
  test("ends a margin before validBefore", async () => {
    const code = "invalid_exact_evm_payload_authorization_valid_before";
    expect(await faultOf({ validBefore: String(NOW + MARGIN) })).toBeNull();
    expect(await faultOf({ validBefore: String(NOW + MARGIN - 1) })).toBe(code);
    expect(await faultOf({ validBefore: "0" })).toBe(code);
    expect(await faultOf({ validBefore: String(2n ** 256n - 1n) })).toBeNull();
  });

  test("begins at validAfter", async () => {
    const code = "invalid_exact_evm_payload_authorization_valid_after";
    const validBefore = String(2n ** 256n - 1n);
    expect(await faultOf({ validAfter: String(NOW), validBefore })).toBeNull();
    expect(await faultOf({ validAfter: String(NOW + 1), validBefore })).toBe(code);
    expect(await faultOf({ validAfter: String(2n ** 256n - 1n), validBefore })).toBe(code);
    expect(await faultOf({ validAfter: "0" })).toBeNull();
  });

  test("has the margin that is configured", async () => {
    const strict = mechanism({ validBeforeMarginSeconds: 20 });
    for (const [left, code] of [
      [20, null],
      [19, "invalid_exact_evm_payload_authorization_valid_before"],
    ] as const) {
      const paymentPayload = await sign({ overrides: { validBefore: String(NOW + left) } });
      const checked = strict.check({ paymentPayload, paymentRequirements: requirements }, NOW);
      expect(checked.ok && (checked.value.fault?.code ?? null)).toBe(code);
    }
  });
});

describe("faults of an authorization", () => {
  test("one atomic unit less than required is too little", async () => {
    expect(await faultOf({ value: "9999" })).toBe("invalid_exact_evm_payload_authorization_value");
    expect(await faultOf({ value: "0" })).toBe("invalid_exact_evm_payload_authorization_value");
  });

  test("another recipient than payTo is a mismatch", async () => {
    expect(await faultOf({ to: freshAccount().address })).toBe(
      "invalid_exact_evm_payload_recipient_mismatch",
    );
  });

  test("are reported in the order recipient, validBefore, validAfter, value", async () => {
    const wrong: [keyof EvmAuthorization, string, string][] = [
      ["to", freshAccount().address, "invalid_exact_evm_payload_recipient_mismatch"],
      ["validBefore", "1", "invalid_exact_evm_payload_authorization_valid_before"],
      ["validAfter", String(NOW + 9), "invalid_exact_evm_payload_authorization_valid_after"],
      ["value", "1", "invalid_exact_evm_payload_authorization_value"],
    ];
    while (wrong.length > 0) {
      const overrides = Object.fromEntries(wrong.map(([member, value]) => [member, value]));
      expect(await faultOf(overrides)).toBe(wrong[0]?.[2]);
      wrong.shift();
    }
  });

  test("are told behind an unproven signature, and leave nothing to ask the chain", async () => {
    const checked = await check({
      account: freshAccount().account,
      overrides: { from: payer.address, value: "1" },
    });
    const detail =
      "the signature is not the payer's own key's; of a smart wallet's payment: the authorization pays less than 10000 atomic units ($0.01)";
    expect(checked).toMatchObject({
      ok: true,
      value: {
        proven: false,
        payer: payer.address,
        fault: { code: "invalid_exact_evm_payload_signature", detail },
      },
    });
  });

  test("are that nobody signs for the zero address, and that no wallet is served", async () => {
    const nobody = await check({ overrides: { from: `0x${"0".repeat(40)}` } });
    const detail = "the zero address signs nothing";
    expect(nobody).toMatchObject({ ok: true, value: { proven: false, fault: { detail } } });
    const account = freshAccount();
    const signed = await sign({ overrides: { from: account.address } });
    const request = { paymentPayload: signed, paymentRequirements: requirements };
    const faultWhere = (smartWallets: "allow" | "deny") => {
      const checked = mechanism({ smartWallets }).check(request, NOW);
      return checked.ok ? checked.value.fault?.detail : checked.error.detail;
    };
    expect(faultWhere("allow")).toBeUndefined();
    expect(faultWhere("deny")).toContain("smart wallets are not served here");
  });
});

describe("a signature is unproven", () => {
  test.each([
    ["made by somebody else", { overrides: { from: freshAccount().address } }],
    ["for another chain", { chainId: 8453 }],
    ["for another token name", { domain: { name: "USD Coin" } }],
    ["for another token version", { domain: { version: "1" } }],
    ["empty", signature(() => "0x")],
    ["without its last byte", signature((hex) => hex.slice(0, -2))],
    ["with a byte more", signature((hex) => `${hex}00`)],
    ["for another value", member("value", "10001")],
    ["for another nonce", member("nonce", `0x${"11".repeat(32)}`)],
    ["for another validAfter", member("validAfter", "1")],
  ] satisfies [string, Partial<SignOptions>][])("when it is %s", async (_title, options) => {
    expect(await check(options)).toMatchObject({ ok: true, value: { proven: false } });
  });

  test("not when its last byte is the parity: it is proven as with the v of that", async () => {
    const whole = await sign();
    const { signature: hex } = whole.payload;
    const told = hex.replace(/1b$/, "00").replace(/1c$/, "01");
    const paymentPayload = { ...whole, payload: { ...whole.payload, signature: told } };
    const parsed = evm.parse({ paymentPayload, paymentRequirements: requirements });
    expect(parsed).toMatchObject({ ok: true, value: { proven: true, signature: hex.slice(2) } });
  });
});

test.each([
  ["payer", { from: freshAccount().address }],
  ["payee", { to: freshAccount().address }],
  ["value", { value: "10001" }],
  ["nonce", { nonce: `0x${"11".repeat(32)}` as const }],
  ["end", { validBefore: String(NOW + 59) }],
] as const)("a signature that was proven proves nothing with another %s", async (_, changes) => {
  const payment = await sign();
  const proven = (paymentPayload: EvmPayment) => {
    const parsed = evm.parse({ paymentPayload, paymentRequirements: requirements });
    return parsed.ok && parsed.value.proven;
  };
  const { payload } = payment;
  const authorization = { ...payload.authorization, ...changes };
  expect(proven(payment)).toBe(true);
  expect(proven({ ...payment, payload: { ...payload, authorization } })).toBe(false);
  expect(proven(payment)).toBe(true);
});

describe("requirements that are not served", () => {
  test.each([
    ["another asset", { asset: "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913" }],
    ["an asset that is no address", { asset: "USDC" }],
    ["a recipient that is no address", { payTo: "shop.example" }],
    ["a recipient that is not ours", { payTo: freshAccount().address }],
    ["an amount that is none", { maxAmountRequired: "0x10" }],
    ["another token name", { extra: { name: "USD Coin", version: "2" } }],
    ["another token version", { extra: { name: "USDC", version: "1" } }],
    ["a token name that is no text", { extra: { name: 5 } }],
    ["a time-out of the margin", { maxTimeoutSeconds: MARGIN }],
  ])("%s: invalid_payment_requirements", async (_title, changes) => {
    expect(await refusalOf(changes)).toBe("invalid_payment_requirements");
  });

  test.each([
    ["no extra", { extra: {} }],
    ["other members in extra", { extra: { name: "USDC", hint: "x" } }],
    ["the shortest time-out", { maxTimeoutSeconds: MARGIN + 1 }],
    ["another spelling of payTo", { payTo: payee.address.toLowerCase() }],
  ])("%s is served", async (_title, changes) => {
    expect(await refusalOf(changes)).toBe("accepted");
  });

  test("absent extra means the token's own name and version", async () => {
    const { extra: _extra, ...plain } = requirements;
    const request = { paymentPayload: await sign(), paymentRequirements: plain };
    expect(evm.check(request, NOW)).toMatchObject({ ok: true, value: { proven: true } });
  });

  test("any recipient is served where all are allowed", async () => {
    const open = mechanism({ allowPayTo: "any" });
    const elsewhere = { ...requirements, payTo: freshAccount().address };
    const paymentPayload = await sign({ requirements: elsewhere });
    const checked = open.check({ paymentPayload, paymentRequirements: elsewhere }, NOW);
    expect(checked).toMatchObject({ ok: true, value: { fault: null } });
  });

  test("are refused before anything about the payload", async () => {
    const options = { overrides: { value: "1" }, domain: { name: "x" } };
    expect(await refusalOf({ asset: "0x" }, options)).toBe("invalid_payment_requirements");
  });

  test("another scheme or network is refused before the rest", async () => {
    expect(await refusalOf({ scheme: "upto", asset: "" })).toBe("invalid_scheme");
    expect(await refusalOf({ network: "base", asset: "" })).toBe("invalid_network");
  });
});

test.each([
  ["a Solana payload", { transaction: "AAAA" }],
  ["an unreadable value", { value: "1e3" }],
  ["a negative validAfter", { validAfter: "-1" }],
  ["a short nonce", { nonce: "0x00" }],
  ["a payer that is no address", { from: "0x1" }],
])("%s is an invalid_payload, not an exception", async (_title, members) => {
  const payment = await sign();
  const payload =
    "transaction" in members
      ? members
      : { ...payment.payload, authorization: { ...payment.payload.authorization, ...members } };
  const request = {
    paymentPayload: { ...payment, payload },
    paymentRequirements: requirements,
  };
  const checked = evm.check(request, NOW);
  expect(!checked.ok && checked.error.code).toBe("invalid_payload");
});

describe("a mechanism", () => {
  test("names itself, its kind and its accounts", () => {
    expect(evm).toMatchObject({
      scheme: "exact",
      network: "base-sepolia",
      kind: { x402Version: 1, scheme: "exact", network: "base-sepolia" },
      accounts: [signer.address],
    });
  });

  test("does not show a key or an endpoint", () => {
    const secret = mechanism({ rpcUrls: ["http://user:hidden@127.0.0.1:9/key"] });
    const shown = `${inspect(secret, { depth: 9, showHidden: true })} ${JSON.stringify(secret)}`;
    expect(shown).not.toContain(signer.privateKey.slice(2));
    expect(shown).not.toContain("hidden");
  });

  test.each([
    ["no endpoint", { rpcUrls: [] }],
    ["no key", { keys: [] }],
    ["a bad key", { keys: ["0x00"] }],
    ["an endpoint that is no URL", { rpcUrls: ["base"] }],
  ])("cannot be made with %s", (_title, members) => {
    expect(() => mechanism(members)).toThrow(TypeError);
  });
});
