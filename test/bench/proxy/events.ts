/**
 * A paid stream of events: how long after the backend wrote it the buyer has the first event. Each event
 * carries the time at which it was written, on the clock that all processes of a machine share.
 */
import { once } from "node:events";
import { request, type IncomingMessage } from "node:http";
import { EVENTS_PATH } from "../contenders/wares.ts";
import { columns, say } from "../report.ts";
import { median } from "../rounds.ts";
import type { AimRow } from "./aims.ts";
import { newPayments } from "./payments.ts";
import { OURS, X402, type Stage } from "./stage.ts";
import { sized } from "../size.ts";

const STREAMS = sized(12, 1);
const AT_ONCE = sized(4, 1);
const AIM_MS = 5;

export async function compareEvents(stage: Stage): Promise<AimRow[]> {
  const targets = new Map([["the backend itself", stage.backend]]);
  for (const { name, server } of await stage.servers([OURS, X402])) targets.set(name, server);
  const delays = new Map<string, number[]>();
  for (const [name, { url }] of targets) delays.set(name, await firstEvents(url));
  say(`\nPaid events, ${STREAMS} streams, ${AT_ONCE} at once: the first one after it was written`);
  const head = ["", "median ms", "least", "most"];
  const rows = [...delays].map(([name, values]) => [
    name,
    ...[median(values), Math.min(...values), Math.max(...values)].map((ms) => ms.toFixed(2)),
  ]);
  for (const line of columns([head, ...rows])) say(`  ${line}`);
  const value = median(delays.get(OURS) ?? []);
  return [{ text: "Paid events: the first one, ms after the backend's", value, aim: AIM_MS }];
}

async function firstEvents(url: string): Promise<number[]> {
  const delays: number[] = [];
  const payments = newPayments(STREAMS);
  for (let index = 0; index < STREAMS; index += AT_ONCE) {
    const batch = payments.slice(index, index + AT_ONCE);
    delays.push(...(await Promise.all(batch.map((payment) => firstEvent(url, payment)))));
  }
  return delays;
}

/** Milliseconds. */
async function firstEvent(url: string, payment: string): Promise<number> {
  const asked = request(url + EVENTS_PATH, { headers: { "X-PAYMENT": payment } }).end();
  const [answer] = (await once(asked, "response")) as [IncomingMessage];
  if (answer.statusCode !== 200) throw new Error(`${url} answered ${answer.statusCode}`);
  let text = "";
  for await (const part of answer.setEncoding("latin1")) {
    text += String(part);
    const written = /^data: (\d+)\n/.exec(text)?.[1];
    // The rest is not read: the connection ends with the loop.
    if (written !== undefined) return Number(process.hrtime.bigint() - BigInt(written)) / 1e6;
  }
  throw new Error(`${url} told no event`);
}
