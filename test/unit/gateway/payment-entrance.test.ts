/** In which order presented payments come in, and how many may wait. */
import { describe, expect, test } from "vitest";
import { MAX_WAITING_TURNS, PaymentEntrance } from "../../../src/gateway/payment-entrance.ts";
import { Room } from "../../../src/gateway/room.ts";
import { PER_TURN } from "../../../src/gateway/turns.ts";
import { LeavingClient } from "./leaving-client.ts";

const nextTurn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));

function stage(most = 100_000) {
  const room = new Room();
  const entrance = new PaymentEntrance(room);
  const entered: string[] = [];
  const refused: string[] = [];
  const leaving: (() => void)[] = [];
  const come = async (address: string, client = new LeavingClient()): Promise<void> => {
    const leave = await entrance.enter(address, most, client);
    if (leave !== undefined) leaving.push(leave);
    (leave === undefined ? refused : entered).push(address);
  };
  /** Until nothing waits. */
  const settle = async (): Promise<void> => {
    for (let count = -1; count !== entered.length + refused.length; await nextTurn()) {
      count = entered.length + refused.length;
    }
  };
  return { room, entrance, entered, refused, leaving, come, settle };
}

const addresses = (count: number): readonly string[] =>
  Array.from({ length: count }, (_, index) => `10.0.${index >> 8}.${index & 255}`);

describe("payments that come at once", () => {
  test("come in a few in each turn of the event loop", async () => {
    const { entered, come } = stage();
    for (const address of addresses(3 * PER_TURN)) void come(address);
    for (const turn of [1, 2, 3]) {
      // What has its turn comes in at once.
      for (let times = 0; times < 10; times += 1) await Promise.resolve();
      expect(entered.length).toBe(turn * PER_TURN);
      await nextTurn();
    }
  });

  test("are not waited for by the first one of an address that has none", async () => {
    const { entered, come, settle } = stage();
    for (let index = 0; index < 1_000; index += 1) void come("10.0.0.1");
    void come("192.0.2.1");
    await nextTurn();
    await nextTurn();
    expect(entered.indexOf("192.0.2.1")).toBe(PER_TURN);
    await settle();
    expect(entered.length).toBe(1_001);
  });

  test("of two hundred addresses, six of each: a buyer waits behind one of each at the most", async () => {
    const { entered, come, settle } = stage();
    for (const address of addresses(200)) {
      for (let times = 0; times < 6; times += 1) void come(address);
    }
    void come("192.0.2.1");
    await settle();
    expect(entered.length).toBe(1_201);
    // And behind some of the oldest, one of four that come in.
    expect(entered.indexOf("192.0.2.1")).toBeLessThanOrEqual(((200 + PER_TURN) * 4) / 3);
  });

  test("count until they are over, of IPv6 by network", async () => {
    const { entered, leaving, come, settle } = stage();
    const stranger = (host: number): string => `2001:db8:0:7::${host}`;
    for (let host = 1; host <= 4; host += 1) void come(stranger(host));
    await settle();
    for (const address of addresses(PER_TURN)) void come(address);
    void come(stranger(5));
    void come("192.0.2.1");
    await settle();
    expect(entered.slice(-2)).toEqual(["192.0.2.1", stranger(5)]);
    for (const leave of leaving) leave();
    for (const address of addresses(PER_TURN)) void come(address);
    void come(stranger(6));
    void come("192.0.2.1");
    await settle();
    expect(entered.slice(-2)).toEqual([stranger(6), "192.0.2.1"]);
  });

  test("are so many that wait and no more, of one address as many as are free", async () => {
    const { entrance, entered, refused, come, settle } = stage();
    for (let index = 0; index < 2 * MAX_WAITING_TURNS; index += 1) void come("10.0.0.1");
    expect(entrance.waiting).toBe(MAX_WAITING_TURNS / 2 - PER_TURN / 2);
    for (let index = 0; index < 2 * MAX_WAITING_TURNS; index += 1) void come("10.0.0.2");
    const others = addresses(20).map((address) => address.replace("10.", "11."));
    for (const address of others) void come(address);
    await settle();
    expect(entered).toEqual(expect.arrayContaining([...others]));
    expect(refused.length).toBeGreaterThan(2 * MAX_WAITING_TURNS);
    expect(entrance.waiting).toBe(0);
  });

  test("that wait for a place wait no longer once their clients have left", async () => {
    const { entrance, entered, refused, come } = stage(1);
    await come("10.0.0.1");
    const leaving = new LeavingClient();
    void come("10.0.0.2", leaving);
    await nextTurn();
    expect({ entered, waiting: entrance.waiting }).toEqual({ entered: ["10.0.0.1"], waiting: 1 });
    leaving.leave();
    await nextTurn();
    expect({ refused, waiting: entrance.waiting }).toEqual({ refused: ["10.0.0.2"], waiting: 0 });
  });

  test("take no place where their clients have left while they waited", async () => {
    const { room, entered, refused, come, settle } = stage();
    for (const address of addresses(PER_TURN)) void come(address);
    const away = new LeavingClient();
    void come("192.0.2.1", away);
    away.isAway = true;
    await settle();
    expect([entered.length, refused, room.taken]).toEqual([PER_TURN, ["192.0.2.1"], PER_TURN]);
  });

  test("are forgotten once they are over, whether they had a place or not", async () => {
    const { room, entered, leaving, come, settle } = stage();
    const away = new LeavingClient();
    away.isAway = true;
    for (let times = 0; times < 3; times += 1) void come("192.0.2.1", away);
    void come("192.0.2.1");
    await settle();
    for (const leave of leaving) leave();
    expect(room.taken).toBe(0);
    for (const address of addresses(PER_TURN)) void come(address);
    void come("192.0.2.1");
    void come("192.0.2.2");
    await settle();
    expect(entered.slice(-2)).toEqual(["192.0.2.1", "192.0.2.2"]);
  });
});
