/** What a call brings, and how long it is waited for. */
import { IncomingMessage } from "node:http";
import { Socket } from "node:net";
import { expect, test, vi } from "vitest";
import { BODY_TIMEOUT_MS, readRequest } from "../../../src/facilitator/called-request.ts";

test("a body that breaks off is waited for no longer", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  try {
    const request = new IncomingMessage(new Socket());
    request.push("{");
    const read = readRequest(request);
    request.destroy();
    expect(await read).toMatchObject({ ok: false, status: 400, code: "invalid_payload" });
    expect(vi.getTimerCount()).toBe(0);
  } finally {
    vi.useRealTimers();
  }
});

test("a body that does not end is waited for until its time is over", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  try {
    const request = new IncomingMessage(new Socket());
    const read = readRequest(request);
    vi.advanceTimersByTime(BODY_TIMEOUT_MS);
    expect(await read).toMatchObject({ ok: false, status: 400, code: "invalid_payload" });
  } finally {
    vi.useRealTimers();
  }
});
