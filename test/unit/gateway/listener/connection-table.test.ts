/** Since when a connection is idle, or what is under way on it. */
import { Socket } from "node:net";
import { expect, onTestFinished, test, vi } from "vitest";
import { ConnectionTable, UNPLACED_MS } from "../../../../src/gateway/listener/connection-table.ts";

/** A table of two, neither of which has a place, by a clock of the test. */
function full() {
  let now = performance.now();
  const clock = vi.spyOn(performance, "now").mockReturnValue(now);
  onTestFinished(() => clock.mockRestore());
  const table = new ConnectionTable(2, () => []);
  const sockets = [new Socket(), new Socket()] as const;
  for (const socket of sockets) table.add(socket);
  const pass = (ms: number): void => {
    now += ms;
    clock.mockReturnValue(now);
  };
  const begin = (socket: Socket): (() => void) => {
    const connection = table.of(socket);
    const since = connection?.begin() ?? 0;
    return () => connection?.end(since);
  };
  return { table, sockets, pass, begin };
}

test("requests that overlap, each of them short, hold no connection", () => {
  const { table, sockets, pass, begin } = full();
  const [busy, stuck] = sockets;
  let end = begin(busy);
  pass(1);
  begin(stuck);
  for (let times = 0; times < 4; times += 1) {
    pass(UNPLACED_MS / 2);
    const next = begin(busy);
    end();
    end = next;
  }
  expect(table.add(new Socket())).toBe(1);
  expect(busy.destroyed).toBe(false);
  expect(stuck.destroyed).toBe(true);
  // The newcomer is idle.
  expect(table.add(new Socket())).toBe(1);
  expect(busy.destroyed).toBe(false);
});

test("a request is over once, however often that is said", () => {
  const { table, sockets, pass, begin } = full();
  const [busy, idle] = sockets;
  begin(busy);
  pass(1);
  const end = begin(busy);
  end();
  end();
  table.add(new Socket());
  expect(idle.destroyed).toBe(true);
  expect(busy.destroyed).toBe(false);
});

test("of an end, those go that have been silent for long, asked or not, and no other", () => {
  const { table, sockets, pass, begin } = full();
  const [busy, silent] = sockets;
  begin(busy);
  pass(999);
  table.endIdle(1_000);
  expect(silent.destroyed).toBe(false);
  pass(2);
  table.endIdle(1_000);
  expect(silent.destroyed).toBe(true);
  expect(busy.destroyed).toBe(false);
});
