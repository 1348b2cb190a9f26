/** Which networks are open, with one guard taken away: against strangers who would close them, or sell on closed ones. */
import { caughtBy, type Mutant } from "./mutant.ts";

const GATE = "test/integration/facilitator/network-gate.test.ts";
const UNPAYABLE = "test/unit/payments/sale/unpayable.test.ts";
const REMOTE = "test/unit/facilitator/remote-probe.test.ts";
const KNOWN = "test/unit/app/known-networks.test.ts";
const OFFERS = "test/unit/payments/sale/offers.test.ts";
const LOOKOUT = "src/payments/settlement/lookout.ts";

export const NETWORK_MUTANTS: readonly Mutant[] = [
  caughtBy(UNPAYABLE, "takes a payment on a network that is closed", {
    file: "src/payments/sale/choice.ts",
    find: 'networks.of(payment.network) === "closed"',
    put: "false",
  }),
  caughtBy(UNPAYABLE, "counts a payment on a closed network against its buyer", {
    file: "src/gateway/challenge.ts",
    find: ' && outcome !== "unavailable"',
    put: "",
  }),
  caughtBy(OFFERS, "asks for payments on closed networks", {
    file: "src/payments/sale/offers.ts",
    find: 'const offered = [...inState("open"), ...inState("unsteady")];',
    put: "const offered = payable;",
  }),
  caughtBy(GATE, "looks at a network as often as strangers' payments fail", {
    file: LOOKOUT,
    find: "if (this.#isDoubted && sinceMs < DOUBT_PAUSE_MS) {",
    put: "if (sinceMs < 0) {",
  }),
  caughtBy(GATE, "closes a network by one look that found nobody", {
    file: LOOKOUT,
    find: "const LOOKS_TO_CLOSE = 2;",
    put: "const LOOKS_TO_CLOSE = 1;",
  }),
  caughtBy(GATE, "closes a network for one empty account of several", {
    file: "src/mechanism/evm/probe.ts",
    find: "isAble || isOneAble ?",
    put: "isAble ?",
  }),
  caughtBy(REMOTE, "doubts a facilitator for a stranger's odd payment", {
    file: "src/facilitator/remote.ts",
    find: "if (!(cause instanceof RequestRefused)) this.#onDoubt?.();",
    put: "this.#onDoubt?.();",
  }),
  caughtBy(REMOTE, "believes a facilitator that answers everybody what it takes", {
    file: "src/facilitator/remote.ts",
    find: "if (!this.#isStranger) return [];",
    put: "if (status < 500) return [];",
  }),
  caughtBy(KNOWN, "offers a network that flaps first as soon as it is back", {
    file: "src/app/known-networks.ts",
    find: "const isUnsteady = nowMs < known.untilMs || this.#isDoubted(network);",
    put: "const isUnsteady = this.#isDoubted(network);",
  }),
  caughtBy(KNOWN, "sells where the only facilitator does not know us", {
    file: "src/app/known-networks.ts",
    find: "return lookout.closed ?? (isAway",
    put: "return (isAway",
  }),
  caughtBy(
    "test/unit/mechanism/evm/gas-balance.test.ts",
    "forgets what was promised of an account when it looks again",
    {
      file: "src/mechanism/evm/gas-balance.ts",
      find: " && reading.reserved === 0n && !reading.isCut",
      put: "",
    },
  ),
];
