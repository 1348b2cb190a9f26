/**
 * What the gateway holds while it serves slow clients, and what is left when they have gone, measured in
 * its own process. Ends with 1 when a limit is exceeded.
 */
import { comeAndGo, downloadSlowly, Proving } from "./proofs.ts";
import type { Look } from "./gateway-process.ts";

const CLIENTS = 50;
const DOWNLOAD_BYTES = 1024 ** 3;
const MAX_BYTES_A_CLIENT = 3e6;
const REQUESTS = 100_000;
const ABORTED = 10_000;
const MAX_HEAP_DRIFT = 0.05;

let isWithin = true;

function judge(what: string, isSo: boolean): void {
  isWithin &&= isSo;
  console.log(`  ${isSo ? "ok  " : "MISS"} ${what}`);
}

function mb(bytes: number): string {
  return (bytes / 1e6).toFixed(1);
}

function tell({ rss, heapUsed, external, sockets }: Look): string {
  return `rss ${mb(rss)} MB, heap ${mb(heapUsed)} MB, external ${mb(external)} MB, ${sockets} sockets`;
}

console.log(`${CLIENTS} slow clients of a download of 1 GiB, until they have 1 GiB in all`);
{
  await using proving = await Proving.start();
  const { idle, peak } = await downloadSlowly(proving, { clients: CLIENTS, bytes: DOWNLOAD_BYTES });
  console.log(`  idle  ${tell(idle)}\n  peak  ${tell(peak)}`);
  for (const part of ["rss", "external"] as const) {
    const each = (peak[part] - idle[part]) / CLIENTS;
    judge(`${part}: ${mb(each)} MB a client over idle, 3 at most`, each <= MAX_BYTES_A_CLIENT);
  }
}

console.log(`${REQUESTS} requests and ${ABORTED} clients that left`);
{
  await using proving = await Proving.start();
  const { before, after } = await comeAndGo(proving, { requests: REQUESTS, aborted: ABORTED });
  console.log(`  before  ${tell(before)}\n  after   ${tell(after)}`);
  const drift = after.heapUsed / before.heapUsed - 1;
  judge(
    `heap: ${(drift * 100).toFixed(1)} %, 5 either way at most`,
    Math.abs(drift) <= MAX_HEAP_DRIFT,
  );
  judge(`sockets left: ${after.sockets}`, after.sockets === 0);
}

process.exitCode = isWithin ? 0 : 1;
