/** The strangers of a siege, in a process of their own: keeps so many connections open, each of which comes back. */
import { ATTACKS, open, type Besieged } from "./attacks.ts";

export interface Orders extends Besieged {
  readonly attack: string;
  readonly addresses: number;
}

/** Pause before a stranger who was cut comes back, milliseconds. */
const BACK_MS = 1_000;
/** How many connections are begun together, and the pause after them, milliseconds. */
const TOGETHER = 100;
const NEXT_MS = 25;

const orders = JSON.parse(process.argv[2] ?? "") as Orders;
const attack = ATTACKS.find(({ name }) => name === orders.attack);
if (attack === undefined) throw new Error(`no attack: ${orders.attack}`);
const most = attack.connections[orders.protocol];
let opened = 0;
let cut = 0;

function come(index: number): void {
  const localAddress = addressOf(index % orders.addresses);
  const socket = open(attack!, orders, localAddress);
  opened += 1;
  socket.once("close", () => {
    cut += 1;
    setTimeout(() => come(index), BACK_MS);
  });
}

function comeAll(): void {
  let next = 0;
  const coming = setInterval(() => {
    for (let count = 0; count < TOGETHER && next < most; count += 1) come(next++);
    if (next < most) return;
    clearInterval(coming);
    process.send?.("all have come");
  }, NEXT_MS);
}

process.on("message", (order) => {
  if (order === "come") comeAll();
  else process.send?.({ opened, cut });
});
process.on("disconnect", () => process.exit());
process.send?.("ready");

/** Every one of 127.0.0.0/8 is this machine. */
function addressOf(index: number): string {
  return `127.1.${index >> 8}.${(index & 255) + 1}`;
}
