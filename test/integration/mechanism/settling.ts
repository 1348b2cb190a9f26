/** The steps of a settlement, as the integration tests of the EVM mechanism take them. */
import { setTimeout as pause } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import type { Hex } from "viem";
import { afterAll } from "vitest";
import {
  createEvmMechanism,
  type EvmCheckedAuthorization,
  type EvmMechanismOptions,
} from "../../../src/mechanism/evm/evm.ts";
import type {
  Inspected,
  Confirmation,
  Draft,
  Mechanism,
  SignedTransaction,
  Submission,
} from "../../../src/mechanism/mechanism.ts";
import type { Chain } from "../../support/chain.ts";
import {
  requirementsFor,
  signPayment,
  type FreshAccount,
  type SignOptions,
} from "../../support/payer.ts";

export type EvmMechanism = Mechanism<EvmCheckedAuthorization>;
export type Payment = Inspected<EvmCheckedAuthorization>;

export const never = new AbortController().signal;
export const unixNow = () => Math.floor(Date.now() / 1000);
/** Long enough for any answer here, short enough to fail a test that hangs. */
export const soon = () => AbortSignal.timeout(10_000);

/** Between two looks, milliseconds. */
const POLL_MS = 20;

const open: EvmMechanism[] = [];
afterAll(async () => {
  for (const evm of open.splice(0)) await evm.close();
});

export function openMechanism(chain: Chain, key: Hex, members: Partial<EvmMechanismOptions> = {}) {
  const evm = createEvmMechanism({
    network: chain.network,
    assets: [chain.network.asset],
    rpcUrls: [chain.rpcUrl],
    keys: [key],
    clock: unixNow,
    allowPayTo: "any",
    ...members,
  });
  open.push(evm);
  return evm;
}

export function payFor(payee: FreshAccount, amount = "10000") {
  return requirementsFor("base-sepolia", { payTo: payee.address, maxAmountRequired: amount });
}

/** As if the chain had found it good: what has never been asked is not signed. */
export async function accept(evm: EvmMechanism, options: SignOptions): Promise<Payment> {
  const paymentPayload = await signPayment(options);
  const request = { paymentPayload, paymentRequirements: options.requirements };
  const checked = evm.check(request, unixNow());
  if (!checked.ok) throw new Error(checked.error.detail);
  return { ...checked.value, fault: null };
}

/** The draft of payments that all go together. */
export async function draftOf(
  evm: EvmMechanism,
  payments: readonly Payment[],
  account = evm.accounts[0] ?? "",
): Promise<Draft> {
  const { draft, leftOut } = await evm.prepare(payments, account, never);
  if (draft === undefined || leftOut.length > 0) throw new Error(`left out: ${leftOut.join(", ")}`);
  return draft;
}

export async function signDraft(
  evm: EvmMechanism,
  ...payments: readonly Payment[]
): Promise<SignedTransaction> {
  const draft = await draftOf(evm, payments);
  return draft.sign(await evm.accountNonce(draft.account, never));
}

export function submissionOf(
  payments: Payment | readonly Payment[],
  ...variants: readonly SignedTransaction[]
): Submission<EvmCheckedAuthorization> {
  const list = "authorization" in payments ? [payments] : payments;
  return { variants, authorizations: list.map(({ authorization }) => authorization) };
}

/** Looks until every payment is decided, as a facilitator does: a failure counts when it is found twice. */
export async function settle(
  evm: EvmMechanism,
  submission: Submission<EvmCheckedAuthorization>,
  signal: AbortSignal,
): Promise<readonly Confirmation[]> {
  let before: readonly Confirmation[] = [];
  for (;;) {
    const { payments } = await evm.look(submission, signal);
    const isDecided = payments.every((payment, index) => {
      if (payment.kind === "failed") return isDeepStrictEqual(payment, before[index]);
      return payment.kind === "confirmed";
    });
    if (isDecided) return payments;
    before = payments;
    await pause(POLL_MS, undefined, { signal });
  }
}

/** What became of a lone payment; `unknown` when the signal ends first. */
export async function confirm(
  evm: EvmMechanism,
  payment: Payment,
  signed: SignedTransaction,
  signal: AbortSignal,
): Promise<Confirmation> {
  const submission = submissionOf(payment, signed);
  const [outcome] = await settle(evm, submission, signal);
  if (outcome === undefined) throw new Error("a look has an answer for each payment");
  return outcome;
}

/** What one look says of a lone payment. */
export async function lookAt(
  evm: EvmMechanism,
  payment: Payment,
  ...variants: readonly SignedTransaction[]
): Promise<Confirmation> {
  const { payments } = await evm.look(submissionOf(payment, ...variants), soon());
  const [outcome] = payments;
  if (outcome === undefined) throw new Error("a look has an answer for each payment");
  return outcome;
}
