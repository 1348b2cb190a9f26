import type { Checked, Confirmation, Mechanism } from "../../../src/mechanism/mechanism.ts";
import { ok } from "../../../src/x402/result.ts";
import { PAYER } from "./example-request.ts";

const ACCOUNT = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC";

export interface ScriptedMechanism extends Mechanism<string> {
  /** Names of the calls that ask the chain, in order. */
  readonly calls: readonly string[];
  count(name: string): number;
}

/**
 * A mechanism before a chain that does what a test says; by default every payment is good, and on the
 * chain as soon as it is sent. The transaction of account nonce 3 is called `0x3`.
 */
export function scriptMechanism(members: Partial<Mechanism<string>> = {}): ScriptedMechanism {
  const calls: string[] = [];
  const payment: Checked<string> = {
    authorization: "payment",
    payer: PAYER,
    proven: true,
    fault: null,
  };
  const behaviour: Mechanism<string> = {
    scheme: "exact",
    network: "base-sepolia",
    kind: { x402Version: 1, scheme: "exact", network: "base-sepolia" },
    accounts: [ACCOUNT],
    check: () => ok(payment),
    parse: () => ok("payment"),
    inspect: async () => ok(undefined),
    prepare: async () => ({
      account: ACCOUNT,
      sign(accountNonce) {
        const transaction = `0x${accountNonce}`;
        return { transaction, raw: `raw ${transaction}`, account: ACCOUNT, accountNonce };
      },
    }),
    broadcast: async () => undefined,
    confirm: async (_, { transaction }): Promise<Confirmation> => ({
      kind: "confirmed",
      transaction,
    }),
    accountNonce: async () => 0,
    minedNonce: async () => 0,
    probe: async () => [],
    close: async () => undefined,
    ...members,
  };
  return {
    ...behaviour,
    calls,
    count: (name) => calls.filter((call) => call === name).length,
    inspect(...parameters) {
      calls.push("inspect");
      return behaviour.inspect(...parameters);
    },
    prepare(...parameters) {
      calls.push("prepare");
      return behaviour.prepare(...parameters);
    },
    broadcast(...parameters) {
      calls.push("broadcast");
      return behaviour.broadcast(...parameters);
    },
    confirm(...parameters) {
      calls.push("confirm");
      return behaviour.confirm(...parameters);
    },
    accountNonce(...parameters) {
      calls.push("accountNonce");
      return behaviour.accountNonce(...parameters);
    },
  };
}
