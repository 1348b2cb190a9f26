import { afterEach, describe, expect, test } from "vitest";
import { ChainError } from "../../../src/mechanism/mechanism.ts";
import { RpcEndpoints } from "../../../src/mechanism/rpc-endpoints.ts";
import { RpcAnswerTooLarge, RpcRefusal, type Rpc } from "../../../src/mechanism/rpc.ts";

const never = new AbortController().signal;
const open: RpcEndpoints[] = [];
afterEach(async () => {
  for (const endpoints of open.splice(0)) await endpoints.close();
});

/** A scripted endpoint, and what was asked of it. */
interface Node {
  readonly rpc: Rpc;
  chain: string;
  head: bigint;
  /** Thrown by every question; undefined when it is well. */
  fault: Error | undefined;
  readonly asked: string[];
}

function node(host: string): Node {
  const asked: string[] = [];
  const state: Node = {
    chain: "right",
    head: 100n,
    fault: undefined,
    asked,
    rpc: {
      host,
      async call(method) {
        asked.push(method);
        if (state.fault !== undefined) throw state.fault;
        return host;
      },
      async close() {
        asked.push("close");
      },
    },
  };
  return state;
}

function connect(...nodes: readonly Node[]) {
  const clock = { now: 1_000 };
  const health: string[] = [];
  const stateOf = (rpc: Rpc): Node => {
    const found = nodes.find((each) => each.rpc === rpc);
    if (found === undefined) throw new Error("an endpoint of its own");
    return found;
  };
  const endpoints = new RpcEndpoints({
    rpcs: nodes.map(({ rpc }) => rpc),
    async identify(rpc, signal) {
      await rpc.call("identify", [], signal);
      const { chain } = stateOf(rpc);
      return chain === "right" ? undefined : `${rpc.host} serves ${chain}`;
    },
    async readHead(rpc, signal) {
      await rpc.call("head", [], signal);
      return stateOf(rpc).head;
    },
    maxLagBlocks: 5n,
    clock: () => clock.now,
    onHealth: (host, isHealthy) => {
      const state = isHealthy ? "up" : "down";
      health.push(`${host} ${isHealthy === undefined ? "gone" : state}`);
    },
  });
  open.push(endpoints);
  const ask = (signal = never, avoid?: Rpc) =>
    endpoints.run((rpc) => rpc.call("ask", [], signal), signal, avoid);
  /** Lets the checks beside the operations run; the next operation finds their result. */
  const check = async (seconds = 5) => {
    clock.now += seconds;
    await ask().catch(() => undefined);
    await endpoints.settled();
  };
  return { endpoints, ask, check, clock, health };
}

const down = new ChainError("CHAIN_UNREACHABLE", "down");
const refusal = (message: string) => new RpcRefusal("ask", { code: -32_000, message, data: null });

describe("an operation", () => {
  test("goes to the first endpoint, which shows its network once", async () => {
    const [first, second] = [node("first"), node("second")];
    const { ask, endpoints } = connect(first, second);
    await endpoints.identifyAll(never);
    expect(await ask()).toBe("first");
    expect(await ask()).toBe("first");
    expect(first.asked.filter((method) => method === "identify")).toHaveLength(1);
    expect(second.asked).not.toContain("ask");
  });

  test("of a lone endpoint needs its network too, and no heads", async () => {
    const only = node("only");
    const { ask } = connect(only);
    await ask();
    await ask();
    expect(only.asked).toEqual(["identify", "ask", "ask"]);
  });

  test("starts again at the next endpoint when the first one fails in its midst", async () => {
    const [first, second] = [node("first"), node("second")];
    const { endpoints } = connect(first, second);
    const steps: string[] = [];
    const answer = await endpoints.run(async (rpc) => {
      for (const step of ["one", "two"]) {
        steps.push(`${rpc.host} ${step}`);
        if (rpc === first.rpc && step === "two") throw down;
      }
      return rpc.host;
    }, never);
    expect(answer).toBe("second");
    expect(steps).toEqual(["first one", "first two", "second one", "second two"]);
  });

  test.each<[string, Error]>([
    ["no connection", down],
    ["no answer in time", new ChainError("CHAIN_TIMEOUT", "slow")],
    ["an odd answer", new ChainError("CHAIN_ANSWER", "odd")],
    ["a refusal of the node's own", refusal("limit exceeded")],
    ["a block that it does not have", refusal("header not found")],
  ])("is asked elsewhere after %s", async (_title, fault) => {
    const [first, second] = [node("first"), node("second")];
    first.fault = fault;
    expect(await connect(first, second).ask()).toBe("second");
  });

  test.each<[string, Error]>([
    ["a revert", refusal("execution reverted: too poor")],
    ["too much gas", refusal("gas limit is too high")],
    ["more than is wanted", new RpcAnswerTooLarge("ask", {})],
    ["our own fee cap", new ChainError("CHAIN_FEE", "dear")],
    ["our own empty account", new ChainError("CHAIN_GAS", "poor")],
    ["a fault of ours", new TypeError("bug")],
  ])("ends with %s, which any endpoint would answer", async (_title, fault) => {
    const [first, second] = [node("first"), node("second")];
    const { endpoints, ask, health } = connect(first, second);
    await endpoints.identifyAll(never);
    first.fault = fault;
    await expect(ask()).rejects.toBe(fault);
    expect(second.asked).not.toContain("ask");
    expect(health).toEqual(["first up", "second up"]);
  });

  test("fails with the first endpoint's reason when none can answer", async () => {
    const [first, second] = [node("first"), node("second")];
    first.fault = down;
    second.fault = refusal("limit exceeded");
    await expect(connect(first, second).ask()).rejects.toBe(down);
  });

  test("that its caller has given up is asked nowhere else, and blames nobody", async () => {
    const [first, second] = [node("first"), node("second")];
    const { endpoints, ask, health } = connect(first, second);
    await endpoints.identifyAll(never);
    const gone = new AbortController();
    const asking = endpoints.run(async () => {
      gone.abort();
      throw new ChainError("CHAIN_TIMEOUT", "abandoned");
    }, gone.signal);
    await expect(asking).rejects.toThrow("abandoned");
    expect(health).not.toContain("first down");
    expect(await ask()).toBe("first");
    expect(second.asked).not.toContain("ask");
  });

  test("that hung until its caller gave up is the endpoint's fault", async () => {
    const [first, second] = [node("first"), node("second")];
    const { endpoints, ask, clock } = connect(first, second);
    await endpoints.identifyAll(never);
    const gone = new AbortController();
    const asking = endpoints.run(async () => {
      clock.now += 2;
      gone.abort();
      throw new ChainError("CHAIN_TIMEOUT", "abandoned");
    }, gone.signal);
    await expect(asking).rejects.toThrow("abandoned");
    expect(await ask()).toBe("second");
  });

  test("avoids an endpoint where there is another good one, and only then", async () => {
    const [first, second] = [node("first"), node("second")];
    const { ask } = connect(first, second);
    expect(await ask(never, first.rpc)).toBe("second");
    expect(await ask(never, second.rpc)).toBe("first");
    second.fault = down;
    expect(await ask(never, first.rpc)).toBe("first");
    expect(await ask(never, first.rpc)).toBe("first");
  });

  test("avoids one of two endpoints that have the same host", async () => {
    const [first, second] = [node("same"), node("same")];
    const { ask } = connect(first, second);
    await ask(never, first.rpc);
    expect(first.asked).not.toContain("ask");
    expect(second.asked).toContain("ask");
  });
});

describe("an endpoint that failed", () => {
  test("rests, is checked, and is the first again", async () => {
    const [first, second] = [node("first"), node("second")];
    const { endpoints, ask, check, health } = connect(first, second);
    await endpoints.identifyAll(never);
    first.fault = down;
    expect(await ask()).toBe("second");
    first.fault = undefined;
    expect(await ask()).toBe("second");
    await check();
    expect(await ask()).toBe("first");
    expect(health).toEqual(["first up", "second up", "first down", "first up"]);
  });

  test("rests longer each time, a minute at most", async () => {
    const [first, second] = [node("first"), node("second")];
    const { check } = connect(first, second);
    first.fault = down;
    for (let index = 0; index < 200; index += 1) await check();
    // 1,000 seconds: a dozen checks at most while the pauses grow, then one a minute or so.
    expect(first.asked.length).toBeGreaterThan(12);
    expect(first.asked.length).toBeLessThan(30);
    expect(second.asked.filter((method) => method === "head").length).toBeGreaterThan(150);
  });

  test("is asked all the same when every other one fails too", async () => {
    const [first, second] = [node("first"), node("second")];
    const { ask } = connect(first, second);
    first.fault = down;
    second.fault = down;
    await expect(ask()).rejects.toBe(down);
    second.fault = undefined;
    expect(await ask()).toBe("second");
  });

  test("may come back as another network, and is then left out", async () => {
    const [first, second] = [node("first"), node("second")];
    const { endpoints, ask, check } = connect(first, second);
    await endpoints.identifyAll(never);
    first.fault = down;
    await ask();
    first.fault = undefined;
    first.chain = "wrong";
    await check();
    const before = first.asked.length;
    second.fault = down;
    await expect(ask()).rejects.toBe(down);
    expect(first.asked.slice(before)).toEqual([]);
  });
});

describe("an endpoint that is behind", () => {
  test("is not used while there is a fresher one", async () => {
    const [first, second] = [node("first"), node("second")];
    const { endpoints, ask, check, health } = connect(first, second);
    second.head = 106n;
    await endpoints.identifyAll(never);
    expect(await ask()).toBe("second");
    expect(health).toContain("first down");
    first.head = 106n;
    await check();
    expect(await ask()).toBe("first");
  });

  test("is used within the usual distance, and where the fresher one fails", async () => {
    const [first, second] = [node("first"), node("second")];
    const { endpoints, ask } = connect(first, second);
    second.head = 105n;
    await endpoints.identifyAll(never);
    expect(await ask()).toBe("first");
    second.head = 200n;
    await endpoints.identifyAll(never);
    expect(await ask()).toBe("second");
    second.fault = down;
    expect(await ask()).toBe("first");
  });
});

describe("an endpoint of another network", () => {
  test("is left out from the first operation on, and told", async () => {
    const [first, second] = [node("first"), node("second")];
    first.chain = "chain 1";
    const { endpoints, ask } = connect(first, second);
    expect(await ask()).toBe("second");
    expect(first.asked).not.toContain("ask");
    expect(endpoints.forAll(never).map(({ rpc }) => rpc.host)).toEqual(["second"]);
    expect(await endpoints.identifyAll(never)).toMatchObject([
      { kind: "wrong", detail: "first serves chain 1" },
      { kind: "right" },
    ]);
  });

  test("leaves nobody to ask when it is the only one, until it serves the right one", async () => {
    const only = node("only");
    only.chain = "chain 1";
    const { endpoints, ask, check } = connect(only);
    await expect(ask()).rejects.toThrow("only serves chain 1");
    await expect(ask()).rejects.toThrow("no RPC endpoint serves");
    expect(() => endpoints.forAll(never)).toThrow("no RPC endpoint serves");
    only.chain = "right";
    await check(60);
    expect(await ask()).toBe("only");
  });

  test("is believed when it says otherwise than before", async () => {
    const [first, second] = [node("first"), node("second")];
    const { endpoints, ask } = connect(first, second);
    expect(await ask()).toBe("first");
    first.chain = "chain 1";
    await endpoints.identifyAll(never);
    expect(await ask()).toBe("second");
  });
});

test("closing tells that those which were told of are asked no more", async () => {
  const { endpoints, ask, health } = connect(node("first"), node("second"));
  await ask();
  await endpoints.settled();
  const told = health.map((each) => each.split(" ")[0] ?? "");
  await endpoints.close();
  expect(told).toContain("first");
  expect(health.slice(told.length)).toEqual(told.map((host) => `${host} gone`));
});

test("closing closes every endpoint", async () => {
  const [first, second] = [node("first"), node("second")];
  await connect(first, second).endpoints.close();
  expect([first.asked, second.asked]).toEqual([["close"], ["close"]]);
});
