/** Alone in its file: the clock of the whole process is moved. */
import { once } from "node:events";
import { expect, onTestFinished, test, vi } from "vitest";
import { House } from "./house.ts";
import { carry, frame, openTunnel } from "./tunnel.ts";

const HOUR_MS = 3_600_000;

test("a tunnel lives through an hour of silence, and not for ever", async () => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval", "performance"] });
  onTestFinished(() => void vi.useRealTimers());
  await using house = await House.open();
  const { client, backend } = await openTunnel(house, house.front);
  vi.advanceTimersByTime(HOUR_MS);
  const ping = frame(Buffer.from("still there?"), { opcode: 9, isMasked: true });
  await carry(ping, client, backend);
  await carry(frame(Buffer.from("yes"), { opcode: 10 }), backend, client);
  expect(client.destroyed || backend.destroyed).toBe(false);
  // The limit that the configuration has where it says nothing is two hours.
  const closed = once(client, "close");
  client.on("end", () => client.end());
  vi.advanceTimersByTime(3 * HOUR_MS);
  await closed;
});
