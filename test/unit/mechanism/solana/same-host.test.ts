/** Two endpoints of one host, with different keys: what one of them says is not the other one's word. */
import { describe, expect, test } from "vitest";
import { Blockhashes } from "../../../../src/mechanism/solana/blockhashes.ts";
import { openEndpoints } from "../../../../src/mechanism/solana/endpoints.ts";
import { Statuses } from "../../../../src/mechanism/solana/statuses.ts";
import { Subscriptions } from "../../../../src/mechanism/solana/subscriptions.ts";
import { systemTime } from "../../../../src/time/time.ts";
import { startScriptedNode, type RpcReply } from "../../../support/scripted-node.ts";
import { devnet } from "../../../support/solana-requests.ts";
import { inContext } from "./scripted-cluster.ts";
import { startScriptedPubsub } from "./scripted-pubsub.ts";
import { eventually, hurriedTime, never } from "./tracking.ts";

const time = systemTime;

/** One server with a key for each of two endpoints; `answer` hears which one was used. */
async function startShared(answer: (method: string, path: string) => RpcReply) {
  const node = await startScriptedNode(({ method }, { url = "" }) => {
    if (method === "getGenesisHash") return { result: devnet().genesisHash };
    return method === "getSlot" ? { result: 1_000 } : answer(method, url);
  });
  const rpcUrls = [`${node.url}/first`, `${node.url}/second`];
  const { endpoints, urls } = openEndpoints({ network: devnet(), rpcUrls, time });
  const [first, second] = endpoints.forAll(never).map(({ rpc }) => rpc);
  if (first === undefined || second === undefined) throw new Error("there are two");
  return {
    endpoints,
    urls,
    first,
    second,
    async [Symbol.asyncDispose]() {
      await endpoints.close();
      await node.close();
    },
  };
}

const known = { slot: 999, err: null, confirmationStatus: "confirmed" };

describe("two endpoints of one host", () => {
  test("share no status", async () => {
    await using shared = await startShared((_, path) => {
      return inContext(1_000, [path === "/second" ? known : null]);
    });
    const { endpoints, first, second } = shared;
    const statuses = new Statuses({ endpoints, time, closing: never });
    const [one, other] = await Promise.all([
      statuses.readAt(first, "a", never),
      statuses.readAt(second, "a", never),
    ]);
    expect([one.status, other.status?.depth]).toEqual([null, "confirmed"]);
    const question = { isSearched: false, avoid: first };
    expect(await statuses.read("a", question, never)).toMatchObject({ rpc: second });
  });

  test("share no word on a blockhash", async () => {
    await using shared = await startShared((_, path) => inContext(1_000, path === "/first"));
    const { first, second } = shared;
    const blockhashes = new Blockhashes({ time, closing: never });
    const said = await Promise.all(
      [first, second].map((rpc) => blockhashes.ask(rpc, "a", 2_000, never)),
    );
    expect(said.map(({ isValid }) => isValid)).toEqual([true, false]);
  });

  test("have a websocket each", async () => {
    await using server = await startScriptedPubsub();
    const rpcUrls = [`${server.url}/first`, `${server.url}/second`];
    const { endpoints, urls } = openEndpoints({ network: devnet(), rpcUrls, time });
    const subscriptions = new Subscriptions({
      httpUrls: urls,
      commitment: "confirmed",
      time: hurriedTime(1),
      onNotified: () => undefined,
      onSubscribed: () => undefined,
      onTrouble: () => undefined,
    });
    subscriptions.follow("a", urls.keys());
    const paths = () => new Set(server.handshakes.map(({ url }) => url));
    await eventually(paths).toEqual(new Set(["/first", "/second"]));
    await subscriptions.close();
    await endpoints.close();
  });
});
