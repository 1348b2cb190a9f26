import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from "vitest";
import { onReset } from "../../../../src/gateway/message/reset.ts";

beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] }));
afterEach(() => void vi.useRealTimers());

/** A connection over which an answer has just been given, and how it was told to have ended. */
async function answered() {
  const server = createServer({ allowHalfOpen: true });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  const accepted: Promise<Socket[]> = once(server, "connection");
  const client = connect((server.address() as AddressInfo).port, "127.0.0.1");
  onTestFinished(() => void client.destroy());
  const [socket] = await accepted;
  if (socket === undefined) throw new Error("nobody connected");
  socket.on("error", () => {}).resume();
  onTestFinished(() => void socket.destroy());
  await new Promise<void>((resolve) => void socket.write("the answer", () => resolve()));
  const told: string[] = [];
  onReset(socket, (how) => void told.push(how));
  const closed = new Promise<void>((resolve) => void socket.once("close", () => resolve()));
  return { client, socket, closed, told };
}

test("what waits in a client's memory when he breaks off may not have been read, for half a minute", async () => {
  const { client, closed, told } = await answered();
  // So long three megabytes are on their way at a tenth of one in a second.
  vi.advanceTimersByTime(29_000);
  client.resetAndDestroy();
  await closed;
  expect(told).toEqual(["reset"]);
});

test("a connection that is reset later says nothing of it", async () => {
  const { client, closed, told } = await answered();
  vi.advanceTimersByTime(31_000);
  client.resetAndDestroy();
  await closed;
  expect(told).toEqual([]);
});

test("whoever asks for something else has read it", async () => {
  const { client, socket, closed, told } = await answered();
  const heard = once(socket, "data");
  client.write("the next request");
  await heard;
  client.resetAndDestroy();
  await closed;
  expect(told).toEqual([]);
});
