/**
 * The local Solana node as a process of its own:
 *
 *     node test/support/solana/solana-node-process.ts --port 0 --slot-ms 400 --network solana-devnet
 *
 * It prints one line of JSON (`{ "rpcUrl", "wsUrl" }`) when it answers, is driven by the `svm_` methods,
 * and ends on SIGTERM, SIGINT, or when its standard input closes. Other options: `--websocket
 * same-port|next-port|none`, `--slot-ms none`, `--confirmed-after <slots>`, `--finalized-after <slots>`.
 */
import { parseArgs } from "node:util";
import type { WebsocketPlace } from "./rpc-server.ts";
import { GENESIS_HASHES, startSolanaNode } from "./solana-node.ts";

const { values } = parseArgs({
  options: {
    port: { type: "string", default: "0" },
    "slot-ms": { type: "string", default: "400" },
    network: { type: "string", default: "solana-devnet" },
    websocket: { type: "string", default: "same-port" },
    "confirmed-after": { type: "string", default: "1" },
    "finalized-after": { type: "string", default: "32" },
  },
});

const node = await startSolanaNode({
  port: Number(values.port),
  slotMs: values["slot-ms"] === "none" ? null : Number(values["slot-ms"]),
  genesisHash: genesisHashOf(values.network),
  websocket: websocketPlace(values.websocket),
  confirmedAfterSlots: Number(values["confirmed-after"]),
  finalizedAfterSlots: Number(values["finalized-after"]),
});

let isStopping = false;
function stop(): void {
  if (isStopping) return;
  isStopping = true;
  process.stdin.destroy();
  void node.stop();
}

process.once("SIGTERM", stop);
process.once("SIGINT", stop);
process.stdin.once("close", stop).once("end", stop).resume();
process.stdout.write(`${JSON.stringify({ rpcUrl: node.rpcUrl, wsUrl: node.wsUrl })}\n`);

function genesisHashOf(network: string): string {
  if (network === "solana" || network === "solana-devnet") return GENESIS_HASHES[network];
  throw new Error(`--network is solana or solana-devnet, not ${network}`);
}

function websocketPlace(place: string): WebsocketPlace {
  if (place === "same-port" || place === "next-port" || place === "none") return place;
  throw new Error(`--websocket is same-port, next-port or none, not ${place}`);
}
