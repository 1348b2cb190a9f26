import { describe, expect, test } from "vitest";
import { LONG_SILENCE_MS, TunnelPlaces } from "../../../../src/gateway/upstream/tunnel-places.ts";

const MOST = 8;

function stage() {
  const places = new TunnelPlaces(MOST);
  const evicted: string[] = [];
  const enter = (address: string, silentMs = 0, { isSold = false, name = address } = {}) =>
    places.enter(address, isSold, { silentMs, evict: () => void evicted.push(name) });
  const fill = (addresses: number, silentMs = 0) => {
    for (let index = 0; index < MOST; index += 1) enter(`10.0.0.${index % addresses}`, silentMs);
    expect(places.taken).toBe(MOST);
  };
  return { places, evicted, enter, fill };
}

describe("where all tunnels are taken", () => {
  test("one address has all of them until another comes, which gets as many as it has, and no more", () => {
    const { places, evicted, enter, fill } = stage();
    fill(1);
    for (let times = 0; times < MOST; times += 1) enter("192.0.2.1", 1_000);
    expect(evicted).toEqual(Array.from({ length: MOST / 2 }, () => "10.0.0.0"));
    expect(enter("10.0.0.0")).toBeUndefined();
    expect(enter("192.0.2.1")).toBeUndefined();
    expect(places.taken).toBe(MOST);
  });

  test("the one makes room that has been silent longest, of the address with most", () => {
    const { evicted, enter } = stage();
    for (let index = 0; index < 3; index += 1) enter("10.0.0.2", 900);
    for (const [index, ms] of [10, 500, 20, 30, 40].entries()) {
      enter("10.0.0.1", ms, { name: `most ${index}` });
    }
    expect(enter("192.0.2.1")).toBeDefined();
    expect(evicted).toEqual(["most 1"]);
  });

  test("the only one of an address makes room when it has long been silent, for whoever has none", () => {
    const { evicted, enter, fill } = stage();
    fill(MOST, LONG_SILENCE_MS - 1);
    expect(enter("192.0.2.1")).toBeUndefined();
    const silent = stage();
    silent.fill(MOST, LONG_SILENCE_MS);
    expect(silent.enter("192.0.2.1")).toBeDefined();
    expect(silent.enter("192.0.2.1")).toBeUndefined();
    expect(evicted).toEqual([]);
  });

  test("of IPv6 all addresses of a network are one", () => {
    const { enter } = stage();
    for (let index = 0; index < MOST; index += 1) enter(`2001:db8::${index + 1}`);
    expect(enter("2001:db8::99")).toBeUndefined();
    expect(enter("2001:db8:0:1::1")).toBeDefined();
  });

  test("a sale gets one, and what was sold makes no room", () => {
    const { places, evicted, enter, fill } = stage();
    fill(MOST);
    for (let index = 0; index < MOST; index += 1) {
      expect(enter("192.0.2.1", 0, { isSold: true, name: "sold" })).toBeDefined();
    }
    expect(evicted).toHaveLength(MOST);
    expect(evicted).not.toContain("sold");
    expect(places.reserve("192.0.2.2")).toBeUndefined();
    expect(enter("192.0.2.2")).toBeUndefined();
    expect(enter("192.0.2.2", 0, { isSold: true })).toBeUndefined();
  });

  test("what is reserved is sold to nobody else, and ends nobody's before it is paid", () => {
    const { places, evicted, enter, fill } = stage();
    fill(MOST);
    const leaves = Array.from({ length: MOST }, (_, index) => places.reserve(`192.0.2.${index}`));
    expect(leaves).not.toContain(undefined);
    expect(evicted).toEqual([]);
    expect(places.reserve("192.0.2.99")).toBeUndefined();
    expect(enter("192.0.2.99", 0, { isSold: true })).toBeUndefined();
    leaves[0]?.();
    leaves[0]?.();
    expect(enter("192.0.2.0", 0, { isSold: true })).toBeDefined();
    expect(places.reserve("192.0.2.99")).toBeUndefined();
    for (const leave of leaves) leave?.();
    expect(places.reserve("192.0.2.99")).toBeDefined();
  });

  test("an address reserves as many as are left, of IPv6 a network", () => {
    const { places } = stage();
    const reserve = (address: string) => places.reserve(address);
    const own = Array.from({ length: MOST }, (_, index) => reserve(`2001:db8::${index + 1}`));
    expect(own.filter(Boolean)).toHaveLength(MOST / 2);
    expect(reserve("192.0.2.1")).toBeDefined();
    for (const leave of own) leave?.();
    expect(reserve("2001:db8::99")).toBeDefined();
  });

  test("a place is given back once, whoever took it", () => {
    const { places, enter } = stage();
    const sold = enter("192.0.2.1", 0, { isSold: true });
    const lost = enter("10.0.0.1");
    for (let index = 2; index < MOST; index += 1) enter("10.0.0.1");
    expect(enter("192.0.2.2")).toBeDefined();
    lost?.();
    lost?.();
    expect(places.taken).toBe(MOST);
    // It still has all but the one that it lost: six, of which the other gets two.
    const more = Array.from({ length: 4 }, () => enter("192.0.2.2")).filter(Boolean);
    expect(more).toHaveLength(2);
    sold?.();
    sold?.();
    expect(places.taken).toBe(MOST - 1);
  });
});
