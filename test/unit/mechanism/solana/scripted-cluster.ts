/** Nodes that answer what a test tells them to, as the Solana endpoints of one network. */
import { openEndpoints } from "../../../../src/mechanism/solana/endpoints.ts";
import type { RpcEndpoints } from "../../../../src/mechanism/rpc-endpoints.ts";
import type { Rpc } from "../../../../src/mechanism/rpc.ts";
import { systemTime, type Time } from "../../../../src/time/time.ts";
import {
  startScriptedNode,
  type RpcQuestion,
  type RpcReply,
  type ScriptedNode,
} from "../../../support/scripted-node.ts";
import { devnet } from "../../../support/solana-requests.ts";
import { never } from "./tracking.ts";

export type Script = (question: RpcQuestion) => RpcReply;

export interface ScriptedCluster extends AsyncDisposable {
  readonly nodes: readonly ScriptedNode[];
  readonly urls: readonly string[];
  readonly endpoints: RpcEndpoints;
  /** One client for each node. */
  readonly rpcs: readonly Rpc[];
  /** What was asked of a node, but for what shows its network and its head. */
  questions(node?: number): readonly RpcQuestion[];
}

/** A node for each script; all of them serve the network. */
export async function startScriptedCluster(
  scripts: readonly Script[],
  time: Time = systemTime,
): Promise<ScriptedCluster> {
  const nodes = await Promise.all(
    scripts.map((script) =>
      startScriptedNode((question) => {
        if (question.method === "getGenesisHash") return { result: devnet().genesisHash };
        return question.method === "getSlot" ? { result: 1_000 } : script(question);
      }),
    ),
  );
  const urls = nodes.map(({ url }) => url);
  const { endpoints } = openEndpoints({ network: devnet(), rpcUrls: urls, time });
  const rpcs = endpoints.forAll(never).map(({ rpc }) => rpc);
  return {
    nodes,
    urls,
    endpoints,
    rpcs,
    questions(node = 0) {
      return (nodes[node]?.questions ?? []).filter(({ method }) => !ABOUT_NODES.has(method));
    },
    async [Symbol.asyncDispose]() {
      await endpoints.close();
      await Promise.all(nodes.map((node) => node.close()));
    },
  };
}

const ABOUT_NODES: ReadonlySet<string> = new Set(["getGenesisHash", "getSlot"]);

/** The result of a question as nodes put it. */
export function inContext(slot: number, value: unknown): RpcReply {
  return { result: { context: { slot, apiVersion: "4.0.0" }, value } };
}
