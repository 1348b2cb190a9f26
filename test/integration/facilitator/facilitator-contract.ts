/**
 * What every facilitator does, wherever it settles: one suite, run against the embedded one, the remote
 * one before its REST endpoints, and the router over either, on a real chain.
 */
import { getAddress, parseTransaction } from "viem";
import { describe, expect, test } from "vitest";
import type { FacilitatorFault } from "../../../src/payments/facilitator.ts";
import type { ErrorCode } from "../../../src/x402/error-code.ts";
import type { Chain } from "../../support/chain.ts";
import { faultOf } from "../../support/fault-of.ts";
import { freshAccount, type FreshAccount } from "../../support/payer.ts";
import {
  newPayment,
  openStage,
  patience,
  transactionOf,
  type Payment,
  type PaymentOptions,
  type Wrap,
} from "./stage.ts";

export interface Implementation {
  readonly chain: () => Chain;
  readonly wrap: Wrap;
  /**
   * How a settlement ends that could not be begun. A remote one cannot tell it from one that was begun:
   * the protocol has one code for both.
   */
  readonly notBegun: FacilitatorFault["kind"];
}

const BROADCAST = "eth_sendRawTransaction";
const RECEIPT = "eth_getTransactionReceipt";
const now = (): number => Math.floor(Date.now() / 1000);

const refused = { success: false, transaction: "" } as const;

const refusals: readonly (readonly [ErrorCode, string, () => PaymentOptions])[] = [
  ["unsupported_scheme", "of another scheme", () => ({ requirements: { scheme: "upto" } })],
  [
    "invalid_network",
    "on another network than required",
    () => ({ corrupt: (payment) => ({ ...payment, network: "avalanche-fuji" }) }),
  ],
  [
    "invalid_payment_requirements",
    "for a token that is not served",
    () => ({ asked: { asset: freshAccount().address } }),
  ],
  [
    "invalid_exact_evm_payload_signature",
    "signed for another token's domain",
    () => ({ domain: { name: "Monopoly Money" } }),
  ],
  [
    "invalid_exact_evm_payload_recipient_mismatch",
    "to somebody else",
    () => ({ overrides: { to: freshAccount().address } }),
  ],
  [
    "invalid_exact_evm_payload_authorization_valid_before",
    "that expired",
    () => ({ overrides: { validBefore: String(now() - 1) } }),
  ],
  [
    "invalid_exact_evm_payload_authorization_valid_after",
    "that is not valid yet",
    () => ({ overrides: { validAfter: String(now() + 30) } }),
  ],
  [
    "invalid_exact_evm_payload_authorization_value",
    "of less than the price",
    () => ({ overrides: { value: "9999" } }),
  ],
  ["insufficient_funds", "that the payer cannot afford", () => ({ funds: 9_999n })],
];

export function describeFacilitator(title: string, implementation: Implementation): void {
  const { wrap, notBegun } = implementation;
  const open = () => openStage({ chain: implementation.chain() }, wrap);
  const pay = (options?: PaymentOptions) => newPayment(implementation.chain(), options);
  const received = ({ requirements }: Payment) =>
    implementation.chain().balanceOf(getAddress(requirements.payTo));

  describe(`${title} judges a payment`, () => {
    test("as valid, and names the payer", async () => {
      await using stage = await open();
      const { request, payer } = await pay();
      const verdict = await stage.facilitator.verify(request, patience());
      expect(verdict).toEqual({ isValid: true, payer: payer.address });
      expect(stage.proxy.count(BROADCAST)).toBe(0);
    });

    test.each(refusals)("as %s when it is one %s", async (code, _, options) => {
      await using stage = await open();
      const { facilitator, proxy } = stage;
      const payment = await pay(options());
      const { request, payer } = payment;
      const detail = expect.stringMatching(/\w/);
      expect(await facilitator.verify(request, patience())).toEqual({
        isValid: false,
        invalidReason: code,
        payer: payer.address,
        detail,
      });
      for (const idempotencyKey of [undefined, "again"]) {
        const options = { signal: patience(), ...(idempotencyKey ? { idempotencyKey } : {}) };
        expect(await facilitator.settle(request, options)).toEqual({
          ...refused,
          errorReason: code,
          network: request.paymentRequirements.network,
          payer: payer.address,
          detail,
        });
      }
      expect(proxy.count(BROADCAST)).toBe(0);
      expect(await received(payment)).toBe(0n);
    });

    test("as invalid_transaction_state when its nonce is used", async () => {
      await using stage = await open();
      const { request, payer } = await pay({ funds: 20_000n });
      await stage.facilitator.settle(request, { signal: patience() });
      expect(await stage.facilitator.verify({ ...request }, patience())).toMatchObject({
        isValid: false,
        invalidReason: "invalid_transaction_state",
        payer: payer.address,
      });
    });

    test("not at all while the chain cannot be asked", async () => {
      await using stage = await open();
      const { request, payer } = await pay();
      await stage.proxy.down();
      const fault = await faultOf(stage.facilitator.verify(request, patience()));
      expect(fault).toMatchObject({ kind: "unavailable", code: "unexpected_verify_error" });
      await stage.proxy.up();
      const verdict = await stage.facilitator.verify(request, patience());
      expect(verdict).toEqual({ isValid: true, payer: payer.address });
    });
  });

  describe(`${title} settles a payment`, () => {
    test("once, with exactly the transfer that was signed", async () => {
      await using stage = await open();
      const { chain, inner, facilitator } = stage;
      const payment = await pay({ funds: 25_000n });
      const { request, payer, requirements, nonce } = payment;
      await facilitator.verify(request, patience());
      const answer = await facilitator.settle(request, { signal: patience() });
      const transaction = expect.stringMatching(/^0x[0-9a-f]{64}$/);
      const network = requirements.network;
      expect(answer).toEqual({ success: true, transaction, network, payer: payer.address });
      const to = getAddress(requirements.payTo);
      expect(await transactionOf(chain, answer.transaction)).toMatchObject({
        from: inner.signer.toLowerCase(),
        to: chain.asset.toLowerCase(),
        succeeded: true,
        events: [
          { eventName: "AuthorizationUsed", args: { authorizer: payer.address, nonce } },
          { eventName: "Transfer", args: { from: payer.address, to, value: 10_000n } },
        ],
      });
      expect(await chain.balanceOf(payer.address)).toBe(15_000n);
      expect(await received(payment)).toBe(10_000n);
      expect(stage.proxy.count(BROADCAST)).toBe(1);
    });

    test("for the first caller only, whoever else asks without its key", async () => {
      await using stage = await open();
      const payment = await pay({ funds: 20_000n });
      const { request, payer } = payment;
      const settle = (key?: string) => {
        const options = {
          signal: patience(),
          ...(key === undefined ? {} : { idempotencyKey: key }),
        };
        return stage.facilitator.settle({ ...request }, options);
      };
      const first = await settle("first");
      expect(first.success).toBe(true);
      for (const key of [undefined, "second", "FIRST"]) {
        expect(await settle(key)).toMatchObject({
          ...refused,
          errorReason: "invalid_transaction_state",
          payer: payer.address,
        });
      }
      expect(await settle("first")).toEqual(first);
      expect(stage.proxy.count(BROADCAST)).toBe(1);
      expect(await received(payment)).toBe(10_000n);
    });

    test("once, however many ask at the same time", async () => {
      await using stage = await open();
      const payment = await pay({ funds: 100_000n });
      const answers = await Promise.all(
        Array.from({ length: 10 }, () =>
          stage.facilitator.settle({ ...payment.request }, { signal: patience() }),
        ),
      );
      const others = answers.filter(({ success }) => !success);
      expect(others.length).toBe(9);
      for (const each of others) {
        expect(each).toMatchObject({ ...refused, errorReason: "invalid_transaction_state" });
      }
      expect(stage.proxy.count(BROADCAST)).toBe(1);
      expect(await received(payment)).toBe(10_000n);
    });

    test("once, and tells all who ask with one key at the same time", async () => {
      await using stage = await open();
      const payment = await pay({ funds: 100_000n });
      const options = { signal: patience(), idempotencyKey: "one" };
      const answers = await Promise.all(
        Array.from({ length: 10 }, () => stage.facilitator.settle({ ...payment.request }, options)),
      );
      expect(answers[0]?.success).toBe(true);
      expect(new Set(answers.map(({ transaction }) => transaction)).size).toBe(1);
      expect(stage.proxy.count(BROADCAST)).toBe(1);
      expect(await received(payment)).toBe(10_000n);
    });

    test("among others at the same time, each exactly once", async () => {
      await using stage = await open();
      const payTo = freshAccount().address;
      const payers = Array.from({ length: 5 }, freshAccount);
      const payments: Payment[] = [];
      for (const payer of payers) {
        for (let count = 0; count < 4; count += 1) {
          payments.push(await pay({ payer, funds: 10_000n, requirements: { payTo } }));
        }
      }
      const answers = await Promise.all(
        payments.map(({ request }) => stage.facilitator.settle(request, { signal: patience() })),
      );
      expect(answers.filter(({ success }) => success).length).toBe(20);
      const hashes = [...new Set(answers.map(({ transaction }) => transaction))];
      const sent = await Promise.all(hashes.map((hash) => transactionOf(stage.chain, hash)));
      const nonces = sent.map(({ accountNonce }) => accountNonce).sort((a, b) => a - b);
      expect(nonces).toEqual(Array.from(hashes, (_, nonce) => nonce));
      const used = sent.flatMap(({ events }) =>
        events.flatMap(({ args }) => ("nonce" in args ? [args.nonce] : [])),
      );
      expect(used.sort()).toEqual(payments.map(({ nonce }) => nonce).sort());
      expect(await stage.chain.balanceOf(payTo)).toBe(200_000n);
      const { ledger, signer } = stage.inner;
      expect(await ledger.signing.nextAccountNonce("base-sepolia", signer)).toBe(hashes.length);
    });
  });

  describe(`${title} lists`, () => {
    test("exactly the kinds that are settled", async () => {
      await using stage = await open();
      const kinds = [
        { x402Version: 1, scheme: "exact", network: "base-sepolia" },
        { x402Version: 2, scheme: "exact", network: "eip155:84532" },
      ];
      expect(await stage.facilitator.supported(patience())).toMatchObject({ kinds });
    });
  });

  describe(`${title}, when the chain fails it,`, () => {
    test("charges nothing before it could sign, and the payment stays good", async () => {
      await using stage = await open();
      const payment = await pay();
      await stage.proxy.down();
      const settle = () =>
        stage.facilitator.settle(payment.request, { signal: patience(), idempotencyKey: "k" });
      const fault = await faultOf(settle());
      expect(fault).toMatchObject({ kind: notBegun, code: "unexpected_settle_error" });
      expect(await stage.inner.unfinished()).toEqual([]);
      await stage.proxy.up();
      expect(await settle()).toMatchObject({ success: true });
      expect(await received(payment)).toBe(10_000n);
    });

    test("settles although the word of the broadcast is lost", async () => {
      await using stage = await open();
      const payment = await pay();
      const lost = stage.proxy.inject({ method: BROADCAST, at: "answer", drop: true, times: 2 });
      const answer = await stage.facilitator.settle(payment.request, { signal: patience() });
      expect(answer).toMatchObject({ success: true });
      expect(lost.hits).toBe(2);
      expect(await received(payment)).toBe(10_000n);
    });

    test.each([
      ["an HTTP error", { status: 503 }],
      ["nonsense", { status: 200, body: "<html>Bad Gateway</html>" }],
      ["an error of its own", { error: { code: -32603, message: "internal error" } }],
    ])("sends again what the node answered with %s", async (_, failing) => {
      await using stage = await open();
      const payment = await pay();
      const refused = stage.proxy.inject({ method: BROADCAST, ...failing, times: 1 });
      const answer = await stage.facilitator.settle(payment.request, { signal: patience() });
      expect(answer).toMatchObject({ success: true });
      expect(refused.hits).toBe(1);
      expect(await received(payment)).toBe(10_000n);
    });

    test("does not know the outcome while receipts are withheld, and tells it later", async () => {
      await using stage = await open();
      const payment = await pay({ funds: 20_000n });
      const withheld = stage.proxy.inject({ method: RECEIPT, result: null });
      const caller = new AbortController();
      const settle = (signal: AbortSignal) =>
        stage.facilitator.settle({ ...payment.request }, { signal, idempotencyKey: "k" });
      const waiting = faultOf(settle(caller.signal));
      await withheld.hit();
      caller.abort();
      expect(await waiting).toMatchObject({ kind: "unknown", code: "unexpected_settle_error" });
      withheld.lift();
      expect(await settle(patience())).toMatchObject({ success: true });
      expect(stage.proxy.count(BROADCAST)).toBe(1);
      expect(await received(payment)).toBe(10_000n);
    });

    test("holds a payment that somebody else submitted first", async () => {
      await using stage = await open();
      const payment = await pay();
      const sending = stage.proxy.inject({ method: BROADCAST, hold: true });
      const held = faultOf(stage.facilitator.settle(payment.request, { signal: patience() }));
      await sending.hit();
      const [signed] = await stage.inner.unfinished();
      const { to, data } = parseTransaction(signed?.variants[0]?.raw as `0x${string}`);
      if (!to || !data) throw new Error("a settlement calls the token");
      const theirs = await stage.chain.submit(to, data);
      sending.lift();
      expect(await held).toMatchObject({
        kind: "unknown",
        message: expect.stringContaining(theirs),
      });
      expect(await received(payment)).toBe(10_000n);
    });

    test("refuses a payment whose transaction is reverted", async () => {
      await using stage = await open();
      const { chain, proxy, facilitator } = stage;
      const payment = await pay();
      const settle = () =>
        facilitator.settle({ ...payment.request }, { signal: patience(), idempotencyKey: "k" });
      await chain.fund(payment.payer.address, 0n, 10n ** 18n);
      await chain.rpc("evm_setAutomine", [false]);
      try {
        const sent = proxy.inject({ method: BROADCAST, at: "answer", delayMs: 0, times: 1 });
        const settling = settle();
        await sent.hit();
        // Into the same block, and before ours: the better paying transaction comes first.
        await spendElsewhere(chain, payment.payer);
        await chain.mine();
        expect(await settling).toEqual({
          ...refused,
          errorReason: "invalid_transaction_state",
          network: "base-sepolia",
          payer: payment.payer.address,
          detail: expect.stringContaining("reverted"),
        });
      } finally {
        await chain.rpc("evm_setAutomine", [true]);
      }
      expect(await received(payment)).toBe(0n);
      // The same question has the same answer, though the payer could pay by now.
      await chain.fund(payment.payer.address, 10_000n);
      expect(await settle()).toMatchObject({
        ...refused,
        errorReason: "invalid_transaction_state",
      });
      expect(await received(payment)).toBe(0n);
    });
  });
}

/** The payer's own transfer of all that the payment needs, at a fee above everybody's. */
async function spendElsewhere(chain: Chain, payer: FreshAccount): Promise<void> {
  const transfer = `0xa9059cbb${freshAccount().address.slice(2).padStart(64, "0")}`;
  const amount = 10_000n.toString(16).padStart(64, "0");
  const raw = await payer.account.signTransaction({
    chainId: chain.chainId,
    nonce: 0,
    to: chain.asset,
    data: `${transfer as `0x${string}`}${amount}`,
    gas: 200_000n,
    maxFeePerGas: 10n ** 12n,
    maxPriorityFeePerGas: 10n ** 12n,
  });
  await chain.rpc(BROADCAST, [raw]);
}
