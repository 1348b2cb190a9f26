import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import {
  AnswerWatch,
  type WatchedAnswer,
  type AnswerLimits,
  type AnswerReaderState,
} from "../../../../src/gateway/message/answer-watch.ts";
import { arriving } from "../arriving.ts";

const limits: AnswerLimits = { graceMs: 10_000, bytesPerSecond: 100 };

/** A client that takes so many bytes of what waits for it whenever the test says so. */
class Downloading implements AnswerReaderState {
  readonly request = arriving({ rawHeaders: [], peer: "192.0.2.1" });
  answerStalledMs = 0;
  isGivenUp = false;
  written = 0;
  waiting = 0;

  constructor() {
    const { socket } = this.request;
    Object.defineProperty(socket, "writableLength", { get: () => this.waiting });
    const handle = Object.defineProperties(
      {},
      {
        bytesWritten: { get: () => this.written },
        writeQueueSize: { get: () => this.waiting },
        close: { value: () => {} },
      },
    );
    Object.defineProperty(socket, "_handle", { value: handle, writable: true });
  }

  giveUpReading(): void {
    this.isGivenUp = true;
  }

  /** The backend has sent so much. */
  write(bytes: number): void {
    this.written += bytes;
    this.waiting += bytes;
  }

  /** Lets so many seconds pass, in each of which the client takes so many bytes. */
  take(seconds: number, bytes: number): void {
    for (let second = 0; second < seconds; second += 1) {
      this.waiting = Math.max(0, this.waiting - bytes);
      vi.advanceTimersByTime(1_000);
    }
  }
}

function watched(bytes: number): {
  watch: AnswerWatch;
  client: Downloading;
  answer: WatchedAnswer;
} {
  const watch = new AnswerWatch(limits);
  const client = new Downloading();
  client.write(bytes);
  const answer = watch.begin(client);
  return { watch, client, answer };
}

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval", "performance"] });
});
afterEach(() => {
  vi.useRealTimers();
});

describe("an answer", () => {
  test("of which a byte a second is taken is given up once it is too far behind its least rate", () => {
    const { watch, client } = watched(100_000);
    client.take(10, 1);
    expect(client.isGivenUp).toBe(false);
    client.take(2, 1);
    expect(client.isGivenUp).toBe(true);
    expect(watch.size).toBe(0);
  });

  test("that is taken at that rate is not", () => {
    const { client } = watched(1_000_000);
    client.take(3_600, 100);
    expect(client.isGivenUp).toBe(false);
  });

  test("that is taken in large pieces with pauses is not", () => {
    const { client } = watched(1_000_000);
    for (let round = 0; round < 50; round += 1) {
      client.take(8, 0);
      client.take(1, 1_000);
    }
    expect(client.isGivenUp).toBe(false);
  });

  test("that was taken fast at first has no more time for the rest", () => {
    const { client } = watched(10_000_000);
    client.take(1, 9_000_000);
    client.take(12, 1);
    expect(client.isGivenUp).toBe(true);
  });

  test("that its backend sends slowly is not measured by the backend", () => {
    const { client } = watched(100);
    client.take(1, 100);
    for (let round = 0; round < 100; round += 1) {
      client.write(1);
      client.take(1, 1);
      client.take(59, 0);
    }
    expect(client.isGivenUp).toBe(false);
    expect(client.answerStalledMs).toBe(0);
  });

  test("that waits again after a silence of its backend has all of its time", () => {
    const { client } = watched(1_000);
    client.take(9, 0);
    client.take(1, 1_000);
    client.take(3_600, 0);
    client.write(1_000);
    client.take(9, 0);
    expect(client.isGivenUp).toBe(false);
    client.take(3, 0);
    expect(client.isGivenUp).toBe(true);
  });

  test("that is over is not looked at any more", () => {
    const { watch, client, answer } = watched(1_000);
    client.take(5, 0);
    watch.end(answer);
    expect(watch.size).toBe(0);
    expect(client.answerStalledMs).toBe(0);
    client.take(100, 0);
    expect(client.isGivenUp).toBe(false);
    expect(vi.getTimerCount()).toBe(0);
  });

  test("whose client has gone is forgotten", () => {
    const { watch, client } = watched(1_000);
    client.request.socket.destroy();
    client.take(1, 0);
    expect(watch.size).toBe(0);
    expect(client.isGivenUp).toBe(false);
  });

  test("is told to have stalled long before it is given up, where it is slow but not too slow", () => {
    const { client } = watched(1_000_000);
    client.take(5, 200);
    expect(client.answerStalledMs).toBeGreaterThan(4_000);
    client.take(1, 100_000);
    expect(client.answerStalledMs).toBeLessThan(1_000);
    client.take(5, 2_000);
    expect(client.answerStalledMs).toBeLessThan(1_000);
  });
});
