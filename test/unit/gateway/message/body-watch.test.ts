import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import {
  BodyWatch,
  type WatchedBody,
  type BodyLimits,
  type Sender,
} from "../../../../src/gateway/message/body-watch.ts";
import { arriving } from "../arriving.ts";

const limits: BodyLimits = { idleMs: 10_000, totalMs: 60_000, bytesPerSecond: 100 };

/** A client that sends so many bytes whenever the test says so. */
class Uploading implements Sender {
  readonly request = arriving({ rawHeaders: [], peer: "192.0.2.1" });
  isGivenUp = false;
  bodyStalledMs = 0;
  bytesRead = 0;
  isFlowing: boolean | null = true;

  constructor() {
    Object.defineProperty(this.request.socket, "bytesRead", { get: () => this.bytesRead });
    Object.defineProperty(this.request, "readableFlowing", { get: () => this.isFlowing });
  }

  giveUp(): void {
    this.isGivenUp = true;
  }
}

/** Lets so many seconds pass, in each of which the client sends so many bytes. */
function upload(client: Uploading, seconds: number, bytes: number): void {
  for (let second = 0; second < seconds; second += 1) {
    client.bytesRead += bytes;
    vi.advanceTimersByTime(1_000);
  }
}

function watched(options: Partial<BodyLimits> = {}): {
  watch: BodyWatch;
  client: Uploading;
  body: WatchedBody;
} {
  const watch = new BodyWatch({ ...limits, ...options });
  const client = new Uploading();
  const body = watch.begin(client);
  return { watch, client, body };
}

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval", "performance"] });
});
afterEach(() => {
  vi.useRealTimers();
});

describe("a body", () => {
  test("that stalls is given up after its longest silence", () => {
    const { watch, client } = watched();
    upload(client, 5, 5_000);
    upload(client, 9, 0);
    expect(client.isGivenUp).toBe(false);
    upload(client, 3, 0);
    expect(client.isGivenUp).toBe(true);
    expect(watch.size).toBe(0);
  });

  test("that goes on before that is not", () => {
    const { client } = watched();
    for (let round = 0; round < 5; round += 1) {
      upload(client, 8, 0);
      upload(client, 1, 1_000);
    }
    expect(client.isGivenUp).toBe(false);
  });

  test("that trickles is given up once it is too far behind its least rate", () => {
    const { client } = watched();
    upload(client, 10, 2);
    expect(client.isGivenUp).toBe(false);
    upload(client, 2, 2);
    expect(client.isGivenUp).toBe(true);
  });

  test("that comes at that rate is not, for as long as a body may take", () => {
    const { client } = watched();
    upload(client, 59, 100);
    expect(client.isGivenUp).toBe(false);
    upload(client, 3, 100);
    expect(client.isGivenUp).toBe(true);
  });

  test("that nobody reads has all the time there is, and the same time afterwards", () => {
    const { client } = watched();
    client.isFlowing = null;
    upload(client, 3_600, 0);
    client.isFlowing = true;
    upload(client, 9, 0);
    expect(client.isGivenUp).toBe(false);
    upload(client, 3, 0);
    expect(client.isGivenUp).toBe(true);
  });

  test("that comes faster than its backend takes it is not measured by the backend", () => {
    const { client } = watched();
    for (let round = 0; round < 100; round += 1) {
      client.isFlowing = false;
      upload(client, 30, 0);
      client.isFlowing = true;
      upload(client, 1, 50);
    }
    // A hundred seconds of reading: more than is allowed.
    expect(client.isGivenUp).toBe(true);
    const patient = watched({ totalMs: 200_000 });
    for (let round = 0; round < 100; round += 1) {
      patient.client.isFlowing = false;
      upload(patient.client, 30, 0);
      patient.client.isFlowing = true;
      upload(patient.client, 1, 100);
    }
    expect(patient.client.isGivenUp).toBe(false);
  });

  test("that is whole is not looked at any more", () => {
    const { watch, client, body } = watched();
    client.request.complete = true;
    watch.end(body);
    expect(watch.size).toBe(0);
    upload(client, 100, 0);
    expect(client.isGivenUp).toBe(false);
  });

  test("whose request is answered is looked after until it is whole", () => {
    const { watch, client, body } = watched();
    watch.end(body);
    expect(watch.size).toBe(1);
    client.request.complete = true;
    upload(client, 1, 0);
    expect(watch.size).toBe(0);
    expect(client.isGivenUp).toBe(false);
  });

  test("whose client has gone is forgotten", () => {
    const { watch, client } = watched();
    client.request.socket.destroy();
    upload(client, 1, 0);
    expect(watch.size).toBe(0);
    expect(client.isGivenUp).toBe(false);
  });

  test("is told to have stalled while it is its client that is waited for", () => {
    const { client } = watched();
    upload(client, 5, 200);
    expect(client.bodyStalledMs).toBeGreaterThan(4_000);
    client.isFlowing = false;
    upload(client, 1, 0);
    expect(client.bodyStalledMs).toBe(0);
    client.isFlowing = true;
    upload(client, 1, 0);
    expect(client.bodyStalledMs).toBeGreaterThan(4_000);
    client.request.complete = true;
    upload(client, 1, 0);
    expect(client.bodyStalledMs).toBe(0);
  });

  test("costs no timer where there is none", () => {
    const { client } = watched();
    expect(vi.getTimerCount()).toBe(1);
    client.request.complete = true;
    upload(client, 1, 0);
    expect(vi.getTimerCount()).toBe(0);
  });
});
