/**
 * How long an event takes from the backend's write to the client's read, direct and through the gateway,
 * free and paid, one in turn with the others. Ends with 1 when the gateway adds more than its aim.
 */
import { connect } from "node:net";
import { X402_VERSION } from "../../src/x402/x402.ts";
import { AUTHORITY } from "./client.ts";
import { Proving } from "./proofs.ts";
import { Purse } from "./purse.ts";
import { headText, type Line } from "./wire.ts";

const ROUNDS = 300;
const WARM_UP_ROUNDS = 50;
const MAX_ADDED_MS = 5;

await using proving = await Proving.start();
const { port, backendPort } = proving;
const purse = new Purse({ port });
const ways = {
  direct: () => firstEvent(backendPort, "/events", []),
  free: () => firstEvent(port, "/events", []),
  paid: async () =>
    firstEvent(port, "/paid/events", [await purse.payment("/paid/events", X402_VERSION)]),
};
const measured: Record<keyof typeof ways, number[]> = { direct: [], free: [], paid: [] };
for (let round = 0; round < WARM_UP_ROUNDS + ROUNDS; round += 1) {
  for (const name of ["direct", "free", "paid"] as const) {
    const ms = await ways[name]();
    if (round >= WARM_UP_ROUNDS) measured[name].push(ms);
  }
}
const direct = quantile(measured.direct, 0.5);
for (const [name, all] of Object.entries(measured)) {
  const added = quantile(all, 0.5) - direct;
  const [p50, p99] = [quantile(all, 0.5), quantile(all, 0.99)];
  console.log(
    `${name.padEnd(6)} p50 ${p50.toFixed(2)} ms, p99 ${p99.toFixed(2)} ms, added ${added.toFixed(2)} ms`,
  );
  if (added > MAX_ADDED_MS) process.exitCode = 1;
}

/** Milliseconds between the backend's write of the first event and its arrival here. */
function firstEvent(to: number, target: string, lines: readonly Line[]): Promise<number> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port: to, host: "127.0.0.1", noDelay: true });
    let text = "";
    socket.write(headText(`GET ${target} HTTP/1.1`, [["Host", AUTHORITY], ...lines]));
    socket.on("error", reject);
    socket.once("close", () => reject(new Error(`no event: ${text.slice(0, 200)}`)));
    socket.on("data", (chunk) => {
      const now = process.hrtime.bigint();
      text += chunk.toString("latin1");
      const sent = /^data: (\d+)$/m.exec(text)?.[1];
      if (sent === undefined) return;
      resolve(Number(now - BigInt(sent)) / 1e6);
      socket.destroy();
    });
  });
}

function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((left, right) => left - right);
  return sorted[Math.floor(sorted.length * share)] ?? Number.NaN;
}
