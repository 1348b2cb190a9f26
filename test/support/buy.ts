/** `BUYER_KEY=0x… npm run -s buy -- URL [JSON body]`: one purchase by the official client. */
import type { Hex } from "viem";
import { purchase } from "./purchase.ts";

const [url, body] = process.argv.slice(2);
const key = process.env["BUYER_KEY"];
if (url === undefined || key === undefined || !/^0x[0-9a-fA-F]{64}$/.test(key)) {
  process.stderr.write("usage: BUYER_KEY=0x… npm run -s buy -- URL [JSON body]\n");
  process.exit(2);
}
const headers = { "Content-Type": "application/json" };
const bought = await purchase(key as Hex, url, body ? { method: "POST", body, headers } : {});
process.stderr.write(`${bought.status} ${bought.receipt?.transaction ?? "nothing was paid"}\n`);
process.stdout.write(`${bought.body}\n`);
