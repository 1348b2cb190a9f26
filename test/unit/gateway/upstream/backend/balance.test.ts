import { describe, expect, test } from "vitest";
import {
  balancerOf,
  type Balance,
  type Weighted,
} from "../../../../../src/gateway/upstream/backend/balance.ts";

interface Target extends Weighted {
  active: number;
}

function target(name: string, weight = 1): Target {
  return { name, weight, active: 0, credit: 0 };
}

function chosen(balance: Balance, targets: readonly Target[], addresses: readonly string[]) {
  const choose = balancerOf(balance);
  return addresses.map((address) => choose(targets, address)?.name ?? "none");
}

function count(names: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const name of names) counts[name] = (counts[name] ?? 0) + 1;
  return counts;
}

const addresses = (many: number): string[] =>
  Array.from(
    { length: many },
    (_, index) => `10.${index >> 16}.${(index >> 8) & 255}.${index & 255}`,
  );

describe("round-robin", () => {
  test("gives each target its weight's share, spread out and not in runs", () => {
    const targets = [target("a", 5), target("b", 1), target("c", 1)];
    const order = chosen("round-robin", targets, addresses(14)).join("");
    expect(order).toBe("aabacaaaabacaa");
  });

  test("goes on evenly while one is missing, and when it is back", () => {
    const [a, b, c] = [target("a"), target("b"), target("c")];
    const choose = balancerOf("round-robin");
    const names = (targets: readonly Target[], many: number) =>
      count(Array.from({ length: many }, () => choose(targets, "")?.name ?? ""));
    expect(names([a, b, c], 30)).toEqual({ a: 10, b: 10, c: 10 });
    expect(names([a, b], 30)).toEqual({ a: 15, b: 15 });
    expect(names([a, b, c], 30)).toEqual({ a: 10, b: 10, c: 10 });
  });
});

describe("least-requests", () => {
  test("asks the one with the fewest for its weight", () => {
    const targets = [target("a", 3), target("b", 1)];
    const [a, b] = targets as [Target, Target];
    const choose = balancerOf("least-requests");
    const next = (): string => choose(targets, "")?.name ?? "";
    a.active = 5;
    b.active = 2;
    expect(next()).toBe("a");
    a.active = 7;
    expect(next()).toBe("b");
  });

  test("holds the weights while requests stay open, and takes turns between equals", () => {
    const targets = [target("a", 3), target("b", 1)];
    const choose = balancerOf("least-requests");
    for (let request = 0; request < 400; request += 1) {
      const found = choose(targets, "");
      if (found !== undefined) found.active += 1;
    }
    expect(targets.map(({ active }) => active)).toEqual([300, 100]);
    const idle = [target("a"), target("b"), target("c")];
    expect(count(chosen("least-requests", idle, addresses(30)))).toEqual({ a: 10, b: 10, c: 10 });
  });
});

describe("hash(ip)", () => {
  const clients = addresses(20_000);

  test("sends a client to the same target, whatever the order of the file", () => {
    const [a, b, c] = [target("10.0.0.1:80"), target("10.0.0.2:80"), target("10.0.0.3:80")];
    const first = chosen("hash(ip)", [a, b, c], clients);
    expect(chosen("hash(ip)", [c, a, b], clients)).toEqual(first);
  });

  test("gives each target its weight's share of the clients", () => {
    const targets = [target("10.0.0.1:80", 3), target("10.0.0.2:80", 1), target("10.0.0.3:80", 1)];
    const shares = count(chosen("hash(ip)", targets, clients));
    expect(shares["10.0.0.1:80"]).toBeGreaterThan(0.57 * clients.length);
    expect(shares["10.0.0.1:80"]).toBeLessThan(0.63 * clients.length);
    expect(shares["10.0.0.2:80"]).toBeGreaterThan(0.18 * clients.length);
    expect(shares["10.0.0.3:80"]).toBeGreaterThan(0.18 * clients.length);
  });

  test("moves only the clients of a target that leaves, over all of the others", () => {
    const targets = [1, 2, 3, 4].map((each) => target(`10.0.0.${each}:80`));
    const before = chosen("hash(ip)", targets, clients);
    const after = chosen("hash(ip)", targets.slice(1), clients);
    const moved = before.flatMap((name, index) =>
      name === after[index] ? [] : [{ from: name, to: after[index] ?? "" }],
    );
    expect(new Set(moved.map(({ from }) => from))).toEqual(new Set(["10.0.0.1:80"]));
    const taken = count(moved.map(({ to }) => to));
    expect(Object.keys(taken)).toHaveLength(3);
    for (const many of Object.values(taken)) expect(many).toBeGreaterThan(moved.length / 4);
  });
});

test.each(["round-robin", "least-requests", "hash(ip)"] as const)(
  "%s finds nobody among none",
  (balance) => {
    expect(balancerOf(balance)([], "10.0.0.1")).toBeUndefined();
  },
);
