/** Status reads that many transactions share. */
import { describe, expect, test } from "vitest";
import { Statuses, type StatusQuestion } from "../../../../src/mechanism/solana/statuses.ts";
import { systemTime } from "../../../../src/time/time.ts";
import type { RpcReply } from "../../../support/scripted-node.ts";
import { inContext, startScriptedCluster, type ScriptedCluster } from "./scripted-cluster.ts";
import { eventually, hurriedTime, never } from "./tracking.ts";

const RECENT: StatusQuestion = { isSearched: false, avoid: undefined };
const SEARCHED: StatusQuestion = { isSearched: true, avoid: undefined };
const SLOT = 500;
const status = { slot: 499, err: null, confirmationStatus: "confirmed", confirmations: 1 };

function open({ endpoints }: ScriptedCluster, time = systemTime): Statuses {
  return new Statuses({ endpoints, time, closing: never });
}

function namesOf(params: readonly unknown[]): readonly unknown[] {
  const [names] = params;
  return Array.isArray(names) ? names : [];
}

/** Answers for each signature what is known of it. */
function knowing(known: Readonly<Record<string, unknown>>) {
  return ({ params }: { readonly params: readonly unknown[] }): RpcReply =>
    inContext(
      SLOT,
      namesOf(params).map((name) => known[String(name)] ?? null),
    );
}

describe("a status", () => {
  test("says where the transaction is, who says so, and when", async () => {
    await using cluster = await startScriptedCluster([knowing({ a: status })]);
    const seen = await open(cluster).read("a", RECENT, never);
    expect(seen).toEqual({
      status: { slot: 499, err: null, depth: "confirmed" },
      slot: SLOT,
      rpc: cluster.rpcs[0],
      isSearched: false,
    });
  });

  test("is null where the node knows of no block", async () => {
    await using cluster = await startScriptedCluster([knowing({})]);
    expect(await open(cluster).read("a", RECENT, never)).toMatchObject({ status: null });
  });

  test("is searched for in the history only when that is asked for", async () => {
    await using cluster = await startScriptedCluster([knowing({})]);
    const statuses = open(cluster);
    await statuses.read("a", RECENT, never);
    expect(await statuses.read("a", SEARCHED, never)).toMatchObject({ isSearched: true });
    expect(cluster.questions().map(({ params }) => params)).toEqual([
      [["a"]],
      [["a"], { searchTransactionHistory: true }],
    ]);
  });

  test.each<[string, unknown]>([
    ["no context", { value: [null] }],
    ["no slot", { context: {}, value: [null] }],
    ["a slot of the far future", { context: { slot: Number.MAX_SAFE_INTEGER }, value: [null] }],
    ["half a slot", { context: { slot: 0.5 }, value: [null] }],
    ["one too many", { context: { slot: SLOT }, value: [null, null] }],
    ["none", { context: { slot: SLOT }, value: [] }],
    ["no list", { context: { slot: SLOT }, value: null }],
    [
      "a status of an unknown depth",
      { context: { slot: SLOT }, value: [{ ...status, confirmationStatus: "rooted" }] },
    ],
    ["a status without a depth", { context: { slot: SLOT }, value: [{ slot: 1, err: null }] }],
    [
      "a status without an error",
      { context: { slot: SLOT }, value: [{ slot: 1, confirmationStatus: "confirmed" }] },
    ],
    ["text", "confirmed"],
  ])("of the wrong shape is none: %s", async (_title, result) => {
    await using cluster = await startScriptedCluster([() => ({ result })]);
    await expect(open(cluster).read("a", RECENT, never)).rejects.toMatchObject({
      code: "CHAIN_ANSWER",
    });
  });
});

describe("reads at the same time", () => {
  test("share a call; those that come while it is in flight share the next", async () => {
    const held = Promise.withResolvers<void>();
    const answer = knowing({ b: status });
    await using cluster = await startScriptedCluster([
      (question) => ({
        raw(response) {
          const reply = answer(question);
          const text = JSON.stringify({ jsonrpc: "2.0", id: question.id, ...reply });
          void held.promise.then(() => response.end(text));
        },
      }),
    ]);
    const statuses = open(cluster);
    const first = [statuses.read("a", RECENT, never), statuses.read("b", RECENT, never)];
    await eventually(() => cluster.questions().length).toBe(1);
    const second = ["c", "d", "c"].map((name) => statuses.read(name, RECENT, never));
    held.resolve();
    const seen = await Promise.all([...first, ...second]);
    expect(seen.map(({ status }) => status?.depth)).toEqual([
      undefined,
      "confirmed",
      undefined,
      undefined,
      undefined,
    ]);
    expect(cluster.questions().map(({ params }) => params[0])).toEqual([
      ["a", "b"],
      ["c", "d"],
    ]);
  });

  test("are at most 256 to a call", async () => {
    await using cluster = await startScriptedCluster([knowing({ s299: status })]);
    const statuses = open(cluster);
    const names = Array.from({ length: 300 }, (_, index) => `s${index}`);
    const seen = await Promise.all(names.map((name) => statuses.read(name, RECENT, never)));
    expect(seen.map(({ status }) => status !== null).indexOf(true)).toBe(299);
    const sizes = cluster.questions().map(({ params }) => namesOf(params).length);
    expect(sizes).toEqual([256, 44]);
  });

  test("end with their own caller's patience, and nobody else's", async () => {
    const held = Promise.withResolvers<void>();
    await using cluster = await startScriptedCluster([
      ({ id }) => ({
        raw(response) {
          const result = { context: { slot: SLOT }, value: [null] };
          void held.promise.then(() =>
            response.end(JSON.stringify({ jsonrpc: "2.0", id, result })),
          );
        },
      }),
    ]);
    const statuses = open(cluster);
    const patient = statuses.read("a", RECENT, never);
    const hasty = statuses.read("a", RECENT, AbortSignal.timeout(10));
    await expect(hasty).rejects.toMatchObject({ code: "CHAIN_TIMEOUT" });
    held.resolve();
    expect(await patient).toMatchObject({ status: null });
  });

  test("are not held up for long by a call that hangs", async () => {
    const hung: unknown[] = [];
    const answer = knowing({ b: status });
    await using cluster = await startScriptedCluster([
      (question) => {
        if (hung.length > 0) return answer(question);
        return { raw: (response) => hung.push(response) };
      },
    ]);
    const statuses = open(cluster, hurriedTime(20));
    const leaving = new AbortController();
    const stuck = statuses.read("a", RECENT, leaving.signal);
    await eventually(() => hung.length).toBe(1);
    expect(await statuses.read("b", RECENT, never)).toMatchObject({ slot: SLOT });
    leaving.abort();
    await expect(stuck).rejects.toMatchObject({ code: "CHAIN_TIMEOUT" });
  });

  test("fail together, and leave nothing behind for the next", async () => {
    let isBroken = true;
    const answer = knowing({});
    await using cluster = await startScriptedCluster([
      (question) =>
        isBroken ? { error: { code: -32_005, message: "Node is behind" } } : answer(question),
    ]);
    const statuses = open(cluster);
    const reads = ["a", "b"].map((name) => statuses.read(name, RECENT, never));
    for (const read of reads) await expect(read).rejects.toMatchObject({ rpcCode: -32_005 });
    isBroken = false;
    expect(await statuses.read("a", RECENT, never)).toMatchObject({ status: null });
  });
});

describe("several endpoints", () => {
  test("are asked in turn, but for one that is to be avoided", async () => {
    await using cluster = await startScriptedCluster([knowing({}), knowing({ a: status })]);
    const statuses = open(cluster);
    expect(await statuses.read("a", RECENT, never)).toMatchObject({ status: null });
    const avoid = cluster.rpcs[0];
    const seen = await statuses.read("a", { isSearched: false, avoid }, never);
    expect(seen).toMatchObject({ status: { depth: "confirmed" }, rpc: cluster.rpcs[1] });
  });

  test("a read at one of them is by that one, with its history", async () => {
    await using cluster = await startScriptedCluster([knowing({}), knowing({ a: status })]);
    const [, second] = cluster.rpcs;
    if (second === undefined) throw new Error("there are two");
    const seen = await open(cluster).readAt(second, "a", never);
    expect(seen).toMatchObject({ rpc: second, isSearched: true });
    expect(cluster.questions()).toEqual([]);
  });
});

describe("a node without history", () => {
  test("is asked without it from then on, and says so", async () => {
    const answer = knowing({});
    await using cluster = await startScriptedCluster([
      (question) =>
        question.params.length > 1
          ? { error: { code: -32_011, message: "Transaction history is not available" } }
          : answer(question),
    ]);
    const statuses = open(cluster);
    for (let count = 0; count < 2; count += 1) {
      expect(await statuses.read("a", SEARCHED, never)).toMatchObject({ isSearched: false });
    }
    expect(cluster.questions()).toHaveLength(3);
  });
});
