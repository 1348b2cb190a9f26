import type { PaymentDetailView, PaymentView } from "../../../src/admin/payment-view.ts";

const NONCE = `0x${"ab".repeat(32)}`;
const PAYER = "0x857b06519E91e3A54538791bDbb0E22373e36b66";
const ASSET = "0x036CbD53842c5426634e7929541eC2318f3dCF7e";

export const KEY = `base-sepolia/${ASSET}/${PAYER}/${NONCE}`.toLowerCase();

export function exampleView(overrides: Partial<PaymentView> = {}): PaymentView {
  return {
    key: KEY,
    state: "SETTLED",
    network: "base-sepolia",
    asset: ASSET,
    symbol: "USDC",
    amountAtomic: "10000",
    amount: "0.01",
    payer: PAYER,
    payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C",
    binding: "GET /weather",
    target: "/weather?city=Rome",
    facilitator: null,
    transaction: `0x${"cd".repeat(32)}`,
    attempts: 1,
    failureCode: null,
    failureDetail: null,
    claimedAt: "2026-08-01T12:00:00.123Z",
    updatedAt: "2026-08-01T12:00:01.000Z",
    heldTransaction: null,
    refund: null,
    isRefund: false,
    ...overrides,
  };
}

export function exampleDetail(overrides: Partial<PaymentDetailView> = {}): PaymentDetailView {
  return {
    ...exampleView(),
    resource: "https://api.example.com/weather",
    submission: null,
    events: [],
    advice: "send it again",
    ...overrides,
  };
}
