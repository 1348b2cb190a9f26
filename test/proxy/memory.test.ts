/** The proofs of `memory.ts` and `keep-alive-race.ts` in short: enough to catch what grows with each request. */
import { expect, test } from "vitest";
import { comeAndGo, downloadSlowly, Proving, race } from "./proofs.ts";

const MIB = 1024 * 1024;
/** The engine keeps up to 128 buffers of 64 KiB. */
const MAX_KEPT_BUFFERS_BYTES = 9e6;
/** Several processes on a machine that is busy with other tests. */
const PATIENCE_MS = 120_000;

test(
  "slow clients cost the gateway their buffers and no more",
  async () => {
    await using proving = await Proving.start();
    const clients = 10;
    const { idle, peak } = await downloadSlowly(proving, { clients, bytes: 50 * MIB });
    expect((peak.external - idle.external) / clients).toBeLessThan(3e6);
    // What a process takes on for its first load is more than a few clients' share.
    expect(peak.rss - idle.rss).toBeLessThan(clients * 3e6 + 100e6);
  },
  PATIENCE_MS,
);

test(
  "nothing is left of requests, and of clients that left",
  async () => {
    await using proving = await Proving.start();
    const { before, after } = await comeAndGo(proving, { requests: 5_000, aborted: 1_000 });
    expect(after.sockets).toBe(0);
    expect(after.heapUsed / before.heapUsed).toBeLessThan(1.05);
    // Buffers are kept for the next bodies, a limited number of them.
    expect(after.external - before.external).toBeLessThan(MAX_KEPT_BUFFERS_BYTES);
  },
  PATIENCE_MS,
);

test(
  "no request is lost to a backend that closes its idle connections as they are reused",
  async () => {
    await using proving = await Proving.start();
    const { statuses, raced } = await race(proving, 5_000);
    expect(statuses).toEqual(new Map([[200, 5_000]]));
    expect(raced).toBeGreaterThan(0);
  },
  PATIENCE_MS,
);
