/** The steps of a settlement, as the integration tests of the EVM mechanism take them. */
import type { Hex } from "viem";
import { afterAll } from "vitest";
import {
  createEvmMechanism,
  type EvmCheckedAuthorization,
  type EvmMechanismOptions,
} from "../../../src/mechanism/evm/evm.ts";
import type { Checked, Mechanism, SignedTransaction } from "../../../src/mechanism/mechanism.ts";
import type { Chain } from "../../support/chain.ts";
import {
  requirementsFor,
  signPayment,
  type FreshAccount,
  type SignOptions,
} from "../../support/payer.ts";

export type EvmMechanism = Mechanism<EvmCheckedAuthorization>;
export type Payment = Checked<EvmCheckedAuthorization>;

export const never = new AbortController().signal;
export const unixNow = () => Math.floor(Date.now() / 1000);
/** Long enough for any answer here, short enough to fail a test that hangs. */
export const soon = () => AbortSignal.timeout(10_000);

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

export async function accept(evm: EvmMechanism, options: SignOptions): Promise<Payment> {
  const paymentPayload = await signPayment(options);
  const request = { paymentPayload, paymentRequirements: options.requirements };
  const checked = evm.check(request, unixNow());
  if (!checked.ok) throw new Error(checked.error.detail);
  return checked.value;
}

export async function signDraft(evm: EvmMechanism, payment: Payment): Promise<SignedTransaction> {
  const draft = await evm.prepare(payment, never);
  return draft.sign(await evm.accountNonce(draft.account, never));
}
