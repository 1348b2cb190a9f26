import { describe, expect, onTestFinished, test, vi } from "vitest";
import { MAX_WAITING, MAX_WAITING_FREE, Room } from "../../../src/gateway/room.ts";
import { LeavingClient } from "./leaving-client.ts";

const MOST = 1_000;
/** Without those that are kept for payments. */
const USABLE = 900;

function stage() {
  const clock = { nowMs: 0 };
  const room = new Room(() => clock.nowMs);
  const enter = (address: string, holder = new LeavingClient()) =>
    room.enter(address, MOST, "free", holder);
  /** From so many addresses, as many as they get, each equally far behind. */
  const fill = (addresses: number, stalledMs: number) => {
    const clients: LeavingClient[] = [];
    for (let round = 0; round < 20; round += 1) {
      for (let index = 0; index < addresses; index += 1) {
        const client = new LeavingClient(stalledMs);
        if (enter(`10.0.${index >> 8}.${index & 255}`, client) === undefined) continue;
        clients.push(client);
      }
    }
    return clients;
  };
  return { room, clock, enter, fill };
}

describe("where all places are taken", () => {
  test("by clients that move, nobody makes room", () => {
    const { room, enter, fill } = stage();
    const clients = fill(200, 2_999);
    expect(room.taken).toBeGreaterThan(USABLE - 10);
    for (let client = 0; client < 20; client += 1) enter(`192.0.2.${client}`);
    expect(enter("192.0.2.99")).toBeUndefined();
    expect(clients.some(({ isEvicted }) => isEvicted)).toBe(false);
  });

  test("by clients that have stalled, every new one gets a place, and two of one as well", () => {
    const { room, enter, fill } = stage();
    fill(200, 3_000);
    for (let client = 0; client < 20; client += 1) {
      expect(enter(`192.0.2.${client}`)).toBeDefined();
      expect(enter(`192.0.2.${client}`)).toBeDefined();
    }
    expect(room.taken).toBeLessThanOrEqual(USABLE);
    expect(room.evicted).toBeGreaterThan(0);
  });

  test("those make room that have stalled longest, of the address that has most", () => {
    const { room, enter } = stage();
    const greedy = Array.from({ length: 450 }, (_, index) => new LeavingClient(5_000 + index));
    for (const client of greedy) expect(enter("10.0.0.1", client)).toBeDefined();
    const others = Array.from({ length: 450 }, () => new LeavingClient(90_000));
    for (const [index, client] of others.entries())
      enter(`10.1.${index >> 8}.${index & 255}`, client);
    expect(room.taken).toBe(USABLE);
    expect(enter("192.0.2.1")).toBeDefined();
    expect(others.some(({ isEvicted }) => isEvicted)).toBe(false);
    const evicted = greedy.flatMap(({ isEvicted }, index) => (isEvicted ? [index] : []));
    expect(evicted).toEqual([448, 449]);
  });

  test("nobody makes room for an address that has as many places as they", () => {
    const { room, enter, fill } = stage();
    fill(2, 0);
    const stalled = new LeavingClient(60_000);
    for (let times = 0; times < 2 * USABLE; times += 1)
      enter("10.0.0.1", new LeavingClient(60_000));
    expect(enter("10.0.0.1", stalled)).toBeUndefined();
    expect(room.evicted).toBe(0);
  });

  test("a look that found nobody is not repeated at once for whoever has as many", () => {
    const { clock, enter, fill } = stage();
    const clients = fill(200, 0);
    let last = 0;
    while (last < USABLE && enter(`192.0.2.${last}`) !== undefined) last += 1;
    for (const client of clients) client.stalledMs = 60_000;
    expect(enter("198.51.100.1")).toBeUndefined();
    clock.nowMs += 100;
    expect(enter("198.51.100.1")).toBeDefined();
  });

  test("a place that was taken back is not given back again", () => {
    const { room, enter } = stage();
    const half = USABLE / 2;
    const leaves = Array.from({ length: half }, () => enter("10.0.0.1", new LeavingClient(9_000)));
    const others = Array.from({ length: half }, (_, index) => {
      return enter(`10.1.${index >> 8}.${index & 255}`);
    });
    expect(enter("192.0.2.1")).toBeDefined();
    expect(room.evicted).toBe(2);
    leaves[0]?.();
    leaves[1]?.();
    for (const leave of others) leave?.();
    expect(room.taken).toBe(half - 1);
    // It still has all but two of its half.
    const more = Array.from({ length: 5 }, () => enter("10.0.0.1")).filter(Boolean);
    expect(more).toHaveLength(2);
  });

  test("it is told before all of them are", () => {
    const { room, enter } = stage();
    for (let index = 0; index < 750; index += 1) enter(`10.1.${index >> 8}.${index & 255}`);
    expect(room.isPressed(MOST)).toBe(false);
    enter("192.0.2.1");
    expect(room.isPressed(MOST)).toBe(true);
  });
});

describe("for payments", () => {
  test.each([
    [1_000, 100],
    [200, 20],
    [50, 16],
    [30, 10],
    [10, 1],
  ])("of %i places %i are kept", (most, kept) => {
    const room = new Room();
    let taken = 0;
    for (let address = 0; address < 2_000; address += 1) {
      const holder = new LeavingClient();
      if (room.enter(`10.0.${address >> 8}.${address & 255}`, most, "free", holder)) taken += 1;
    }
    expect(taken).toBe(most - kept);
    for (let address = 0; address < kept; address += 1) {
      const holder = new LeavingClient();
      expect(room.enter(`10.9.0.${address}`, most, "payment", holder)).toBeDefined();
    }
    expect(room.enter("10.9.1.1", most, "payment", new LeavingClient())).toBeUndefined();
  });
});

describe("a payment for which there is no place", () => {
  const FEW = 8;

  /** All places are taken, each by another address. */
  function full() {
    const { room } = stage();
    const leaves = Array.from({ length: FEW }, (_, index) => {
      return room.enter(`10.0.0.${index}`, FEW, "payment", new LeavingClient())!;
    });
    const told: string[] = [];
    const wait = async (
      address: string,
      client = new LeavingClient(),
    ): Promise<(() => void) | undefined> => {
      const leave = await room.wait(address, FEW, "payment", client);
      told.push(`${address} ${leave === undefined ? "none" : "place"}`);
      return leave;
    };
    return { room, leaves, told, wait };
  }

  test("gets the next that is left, and gives it back", async () => {
    const { room, leaves, wait } = full();
    const waiting = wait("192.0.2.1");
    expect(room.taken).toBe(FEW);
    leaves[0]!();
    const leave = await waiting;
    expect(room.taken).toBe(FEW);
    leave!();
    expect(room.taken).toBe(FEW - 1);
  });

  test("waits behind those of addresses that have fewer places", async () => {
    const { room, leaves, told, wait } = full();
    leaves.shift()!();
    const strangers = room.enter("192.0.2.1", FEW, "payment", new LeavingClient())!;
    const [stranger, buyer] = [wait("192.0.2.1"), wait("192.0.2.2")];
    leaves.shift()!();
    (await buyer)!();
    expect(told).toEqual(["192.0.2.2 place"]);
    strangers();
    leaves.shift()!();
    await stranger;
    expect(told).toEqual(["192.0.2.2 place", "192.0.2.1 place"]);
  });

  test("gets its place beside another that gets one", async () => {
    const { room } = stage();
    const holder = new LeavingClient();
    const enter = (address: string) => room.enter(address, 4, "payment", holder);
    enter("10.0.0.1");
    const leave = enter("10.0.0.2")!;
    enter("10.0.0.3");
    for (const address of ["10.0.0.1", "10.0.0.2", "10.0.0.2", "10.0.0.2"]) {
      void room.wait(address, 4, "payment", holder);
    }
    leave();
    expect([room.taken, room.waiting]).toEqual([4, 2]);
  });

  test("is told after a while that there is none, and none is lost", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    onTestFinished(() => void vi.useRealTimers());
    const { room, leaves, told, wait } = full();
    const waiting = wait("192.0.2.1");
    vi.advanceTimersByTime(1_499);
    expect(told).toEqual([]);
    vi.advanceTimersByTime(1);
    // Before it knows.
    leaves[0]!();
    expect(await waiting).toBeUndefined();
    expect(room.taken).toBe(FEW - 1);
    expect(vi.getTimerCount()).toBe(0);
  });

  test("waits no longer than its client", async () => {
    const { room, leaves, wait } = full();
    const client = new LeavingClient();
    const waiting = wait("192.0.2.1", client);
    client.leave();
    leaves[0]!();
    expect(await waiting).toBeUndefined();
    const late = wait("192.0.2.1", client);
    leaves[1]!();
    expect(await late).toBeUndefined();
    expect(room.taken).toBe(FEW - 2);
  });

  test("of one address leaves room for those of others to wait", async () => {
    const { room, leaves, told, wait } = full();
    const strangers = Array.from({ length: MAX_WAITING }, () => wait("192.0.2.1"));
    await new Promise(setImmediate);
    expect(room.waiting).toBe(MAX_WAITING / 2);
    expect(told).toEqual(Array.from({ length: MAX_WAITING / 2 }, () => "192.0.2.1 none"));
    const buyer = wait("192.0.2.2");
    leaves.shift()!();
    expect(await buyer).toBeDefined();
    for (const leave of leaves) leave();
    await Promise.race(strangers);
  });

  test("waits behind one of each address where hundreds have several", async () => {
    const { room, leaves, wait } = full();
    const next: string[] = [];
    const come = async (address: string): Promise<void> => {
      const leave = await wait(address);
      if (leave !== undefined) next.push(address);
      leave?.();
    };
    for (let times = 0; times < 4; times += 1) {
      for (let index = 0; index < 200; index += 1) void come(`10.1.0.${index}`);
    }
    void come("192.0.2.1");
    expect(room.waiting).toBe(801);
    for (const leave of leaves) leave();
    await expect.poll(() => room.waiting).toBe(0);
    expect(next.indexOf("192.0.2.1")).toBe(0);
  });
});

describe("another request for which there is no place", () => {
  const MANY_PLACES = 40;

  /** All places but those of payments are taken, each by another address. */
  function full() {
    const { room } = stage();
    const leaves: (() => void)[] = [];
    for (let index = 0; index < MANY_PLACES; index += 1) {
      const leave = room.enter(`10.0.0.${index}`, MANY_PLACES, "free", new LeavingClient());
      if (leave !== undefined) leaves.push(leave);
    }
    const ended: string[] = [];
    const wait = async (address: string, need: "free" | "payment" = "free"): Promise<void> => {
      const leave = await room.wait(address, MANY_PLACES, need, new LeavingClient());
      ended.push(`${address} ${leave === undefined ? "none" : "place"}`);
    };
    return { room, leaves, ended, wait };
  }

  test("gets the next that is left, and none of those that are kept for payments", async () => {
    const { room, leaves, ended, wait } = full();
    const waiting = wait("192.0.2.1");
    // A payment's, which is given back.
    room.enter("192.0.2.2", MANY_PLACES, "payment", new LeavingClient())!();
    await new Promise(setImmediate);
    expect(ended).toEqual([]);
    leaves[0]!();
    await waiting;
    expect(ended).toEqual(["192.0.2.1 place"]);
    expect(room.taken).toBe(leaves.length);
  });

  test("waits behind every payment", async () => {
    const { room, leaves, ended, wait } = full();
    const kept = Array.from({ length: MANY_PLACES - leaves.length }, (_, index) => {
      return room.enter(`10.1.0.${index}`, MANY_PLACES, "payment", new LeavingClient())!;
    });
    void wait("192.0.2.1");
    void wait("192.0.2.2", "payment");
    expect(room.waiting).toBe(1);
    leaves[0]!();
    await new Promise(setImmediate);
    expect(ended).toEqual(["192.0.2.2 place"]);
    for (const leave of kept) leave();
  });

  test("waits alone of its address, and where so many wait, it does not", async () => {
    const { leaves, ended, wait } = full();
    void wait("192.0.2.1");
    await wait("192.0.2.1");
    expect(ended).toEqual(["192.0.2.1 none"]);
    for (let index = 1; index < MAX_WAITING_FREE; index += 1) {
      void wait(`10.2.${index >> 8}.${index & 255}`);
    }
    await wait("192.0.2.2");
    expect(ended.slice(1)).toEqual(["192.0.2.2 none"]);
    void wait("192.0.2.3", "payment");
    for (const leave of leaves.slice(0, 2)) leave();
    await new Promise(setImmediate);
    expect(ended.slice(2)).toEqual(["192.0.2.3 place", "192.0.2.1 place"]);
  });
});
