/** On which networks payments are taken, by what gates, lookouts and facilitators say, on a clock of the test's. */
import { describe, expect, test } from "vitest";
import { configOf } from "./config-of.ts";
import { SAME_MS } from "../../../src/app/fee-payers.ts";
import {
  FIRST_UNSTEADY_MS,
  KnownNetworks,
  MAX_UNSTEADY_MS,
} from "../../../src/app/known-networks.ts";
import { FacilitatorWord } from "../../../src/facilitator/facilitator-word.ts";
import { NO_STOPS } from "../../../src/payments/sale/stops.ts";
import type { ClosedReason } from "../../../src/telemetry/network-meter.ts";

const CONFIG = `
listen: 127.0.0.1:0
publicUrl: https://shop.example
upstream: http://127.0.0.1:1
payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"
accept: [base, polygon]
facilitator:
  embedded: { networks: { base: { rpc: ["http://127.0.0.1:2"], signers: [env:EVM_KEY] } } }
  remote: [https://facilitator.example]
unmatched: deny
routes:
  GET /weather: $0.01
`;

interface Elsewhere {
  closed: ClosedReason | undefined;
  isDoubted: boolean;
}

function stage({ isRemote = false, facilitators = 0 } = {}) {
  const state = {
    now: 1_000_000,
    closed: undefined as ClosedReason | undefined,
    isDoubted: false,
    hasFeePayer: true,
    stopped: NO_STOPS,
    avoided: new Set<string>(),
  };
  const lookouts = Array.from({ length: facilitators }, (): Elsewhere => ({
    closed: undefined,
    isDoubted: false,
  }));
  const words = lookouts.map(() => new FacilitatorWord());
  const networks = new KnownNetworks({
    gate: { closedReason: () => state.closed, isDoubted: () => state.isDoubted },
    router: { isRemote: () => isRemote, isAvoided: (name) => state.avoided.has(name) },
    remotes: lookouts.map((lookout, index) => ({
      remote: { name: String(index), word: words[index] ?? new FacilitatorWord() },
      lookout,
    })),
    hasFeePayer: () => state.hasFeePayer,
    stopped: {
      get revision() {
        return state.stopped.revision;
      },
      get stops() {
        return state.stopped.stops;
      },
    },
    time: { now: () => state.now },
  });
  return { state, lookouts, words, networks };
}

describe("a network that is settled here", () => {
  test("is what its gate says, and behind the others while it is doubted", () => {
    const { state, networks } = stage();
    expect(networks.of("base")).toBe("open");
    state.isDoubted = true;
    expect(networks.of("base")).toBe("unsteady");
    state.closed = "rpc";
    expect([networks.of("base"), networks.closedReason("base")]).toEqual(["closed", "rpc"]);
    expect(networks.told).toEqual([["base", "closed"]]);
  });

  test.each([
    ["network base", "paused", "paused"],
    ["network base", "gas", "gas"],
    ["all", "paused", "paused"],
    ["network polygon", "paused", undefined],
    ["route GET /weather", "paused", undefined],
  ] as const)(
    "is closed where %s is stopped (%s), and steady at once afterwards",
    (scope, why, reason) => {
      const { state, networks } = stage();
      expect(networks.of("base")).toBe("open");
      const before = networks.revision;
      state.stopped = { revision: 1, stops: new Map([[scope, { why, untilMs: null }]]) };
      expect(networks.revision).toBeGreaterThan(before);
      expect(networks.closedReason("base")).toBe(reason);
      expect(networks.of("base")).toBe(reason === undefined ? "open" : "closed");
      // What is wrong with it is told first.
      state.closed = "rpc";
      expect(networks.closedReason("base")).toBe("rpc");
      state.closed = undefined;
      state.stopped = { ...NO_STOPS, revision: 2 };
      expect(networks.of("base")).toBe("open");
    },
  );

  test("that was closed at the start is steady when it opens for the first time only after a while", () => {
    const { state, networks } = stage();
    state.closed = "wallet";
    expect(networks.of("base")).toBe("closed");
    state.closed = undefined;
    expect(networks.of("base")).toBe("unsteady");
    state.now += FIRST_UNSTEADY_MS - 1;
    expect(networks.of("base")).toBe("unsteady");
    state.now += 1;
    expect([networks.of("base"), networks.told]).toEqual(["open", []]);
  });

  test("that flaps stays behind the others for longer each time, and is forgiven in the end", () => {
    const { state, networks } = stage();
    networks.of("base");
    const flap = (): number => {
      state.closed = "rpc";
      networks.of("base");
      state.closed = undefined;
      const from = state.now;
      while (networks.of("base") === "unsteady") state.now += 1_000;
      return state.now - from;
    };
    const spans = Array.from({ length: 8 }, flap);
    expect(spans.slice(0, 4)).toEqual([1, 2, 4, 8].map((times) => times * FIRST_UNSTEADY_MS));
    expect(Math.max(...spans)).toBe(MAX_UNSTEADY_MS);
    state.now += MAX_UNSTEADY_MS;
    expect(flap()).toBe(FIRST_UNSTEADY_MS);
  });

  test("is another revision when its state changes, looked for at most every quarter of a second", () => {
    const { state, networks } = stage();
    networks.know(configOf(CONFIG));
    expect(networks.used).toEqual(["base", "polygon"]);
    const before = networks.revision;
    state.closed = "chain";
    expect(networks.revision).toBe(before);
    state.now += SAME_MS;
    expect(networks.revision).toBeGreaterThan(before);
    const after = networks.revision;
    state.now += SAME_MS;
    expect(networks.revision).toBe(after);
  });
});

describe("a network that others settle", () => {
  test("is open as long as one of them is there", () => {
    const { lookouts, networks } = stage({ isRemote: true, facilitators: 2 });
    const [first, second] = lookouts as [Elsewhere, Elsewhere];
    first.closed = "unauthorized";
    expect(networks.closedReason("base")).toBeUndefined();
    second.closed = "facilitator";
    expect(networks.closedReason("base")).toBe("unauthorized");
    first.closed = "facilitator";
    expect(networks.closedReason("base")).toBe("facilitator");
    expect(networks.hasElsewhere).toBe(false);
  });

  test("is closed while the only one fails again and again, or says that it takes nothing there", () => {
    const { state, words, networks } = stage({ isRemote: true, facilitators: 1 });
    state.avoided.add("0");
    expect([networks.closedReason("base"), networks.hasElsewhere]).toEqual(["facilitator", false]);
    state.avoided.clear();
    words[0]?.record({ closed: ["base", "eip155:137"] }, 0);
    expect(networks.closedReason("base")).toBe("facilitator");
    expect(networks.closedReason("polygon")).toBe("facilitator");
    expect(networks.closedReason("base-sepolia")).toBeUndefined();
    expect(networks.hasElsewhere).toBe(true);
  });

  test("is closed by its chain where that is asked as well, and on Solana without a fee payer", () => {
    const { state, networks } = stage({ isRemote: true, facilitators: 1 });
    state.closed = "rpc";
    expect(networks.closedReason("base")).toBe("rpc");
    state.closed = undefined;
    state.hasFeePayer = false;
    expect([networks.closedReason("base"), networks.closedReason("solana")]).toEqual([
      undefined,
      "fee-payer",
    ]);
  });

  test("is closed where nobody settles it", () => {
    const { networks } = stage({ isRemote: true });
    expect(networks.closedReason("base")).toBe("facilitator");
  });

  test("is doubted when the only one is", () => {
    const { lookouts, networks } = stage({ isRemote: true, facilitators: 2 });
    const [first, second] = lookouts as [Elsewhere, Elsewhere];
    networks.of("base");
    first.isDoubted = true;
    expect(networks.of("base")).toBe("open");
    second.isDoubted = true;
    expect(networks.of("base")).toBe("unsteady");
  });
});
