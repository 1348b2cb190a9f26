import { describe, expect, test } from "vitest";
import { askAll, group, lettered, metric, moody, Target } from "./backend-stage.ts";
import { buy } from "./shop.ts";
import { send } from "./stage.ts";

describe("a request is tried again", () => {
  const retry = {
    attempts: 2,
    methods: ["GET"],
    on: ["connect-failure", "502", "503"],
  } as const;

  test("on another target when the status says so, and the client sees only that", async () => {
    const mood = moody();
    const of = await group([await mood.target, await lettered("b")], { retry });
    mood.status = 503;
    expect(await askAll(of, 10)).toEqual({ b: 10 });
    expect(await metric(of, "coinslot_upstream_target_requests_total")).toMatchObject({
      [`upstream="api",target="127.0.0.1:${(await mood.target).port}",result="gateway-error"`]: 5,
    });
  });

  test("on another target when the first does not answer in time", async () => {
    const silent = await new Target(() => {}).start();
    const of = await group([silent, await lettered("b")], {
      retry: { ...retry, on: ["504"] },
      target: { responseTimeoutMs: 100 },
    });
    expect(await askAll(of, 4)).toEqual({ b: 4 });
    expect(await askAll(of, 2, { method: "POST", body: ["x"] })).toEqual({ 504: 1, b: 1 });
  });

  test("not for a method or a status that is not listed", async () => {
    const mood = moody();
    const of = await group([await mood.target, await lettered("b")], { retry });
    mood.status = 503;
    expect(await askAll(of, 4, { method: "POST", body: ["x"] })).toEqual({ 503: 2, b: 2 });
    mood.status = 500;
    expect(await askAll(of, 4)).toEqual({ 500: 2, b: 2 });
  });

  test("with its body, where that is still whole", async () => {
    const mood = moody();
    const bodies: string[] = [];
    const b = await new Target((request, response) => {
      let body = "";
      request.on("data", (chunk: Buffer) => {
        body += chunk.toString();
      });
      request.on("end", () => {
        bodies.push(body);
        response.end("b");
      });
    }).start();
    const of = await group([await mood.target, b], { retry: { ...retry, methods: ["PUT"] } });
    mood.status = 502;
    const headers = ["Content-Length", "5"];
    expect(await askAll(of, 4, { method: "PUT", headers, body: ["hello"] })).toEqual({ b: 4 });
    expect(bodies).toEqual(["hello", "hello", "hello", "hello"]);
  });

  test("and the last answer is passed on as it is", async () => {
    const moods = [moody(), moody()];
    const targets = await Promise.all(moods.map(({ target }) => target));
    const of = await group(targets, { retry });
    for (const mood of moods) mood.status = 503;
    const answer = await send(of.shop.port, { path: "/free" });
    expect(answer).toMatchObject({ status: 503, body: Buffer.from("moody") });
    expect(targets.map(({ seen }) => seen.length)).toEqual([1, 1]);
  });

  test("never when it was paid for, once anything was sent", async () => {
    for (const fail of ["status", "cut", "cut late"] as const) {
      const all = { attempts: 5, methods: ["GET", "POST"], on: [...retry.on, "504"] } as const;
      const listener =
        (fails: typeof fail): ConstructorParameters<typeof Target>[0] =>
        (request, response) => {
          request.resume().on("end", () => {
            if (fails === "status") return void response.writeHead(503).end("no");
            if (fails === "cut") return void request.socket.destroy();
            response.writeHead(200, { "Content-Length": "10" });
            response.write("part");
            setImmediate(() => request.socket.destroy());
          });
        };
      const targets = [
        await new Target(listener(fail)).start(),
        await new Target(listener(fail)).start(),
      ];
      const of = await group(targets, { retry: all });
      for (const method of ["GET", "POST"]) {
        for (const target of targets) target.seen.length = 0;
        const number = method === "GET" ? 1 : 2;
        await buy(of.shop, { method }, number).catch(() => {});
        expect(targets.flatMap(({ seen }) => seen)).toHaveLength(1);
      }
    }
  });

  test("within a budget: a backend in trouble does not get its load twice", async () => {
    const moods = [moody(), moody(), moody()];
    const targets = await Promise.all(moods.map(({ target }) => target));
    const of = await group(targets, { retry: { ...retry, attempts: 3 } });
    for (const mood of moods) mood.status = 503;
    await askAll(of, 300);
    const sent = targets.flatMap(({ seen }) => seen).length;
    const spent = await metric(of, "coinslot_upstream_retries_total");
    expect(sent).toBe(300 + (spent['upstream="api",reason="503"'] ?? 0));
    // A reserve of 100, a fifth of the requests, and ten for each second that this took.
    expect(sent).toBeLessThan(300 + 100 + 60 + 100);
  });
});
