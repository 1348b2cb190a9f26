import { describe, expect, test } from "vitest";
import { ask, group, Target } from "./backend-stage.ts";
import { buy } from "./shop.ts";
import { send } from "./stage.ts";

async function mirror(): Promise<Target> {
  return new Target((request, response) => {
    response.writeHead(200, ["X-Powered-By", "a", "X-Kept", "b", "Set-Cookie", "c=d"]);
    response.end(JSON.stringify({ url: request.url, headers: request.headers }));
  }).start();
}

describe("on its way", () => {
  test("a request's path is rewritten, and what is sold is the public one", async () => {
    const of = await group([await mirror()], {
      rewriting: { path: { strip: "/free", prefix: "/internal" } },
    });
    const seen = JSON.parse(await ask(of, { path: "/free/a/b?c=/free" }));
    expect(seen).toMatchObject({ url: "/internal/a/b?c=/free" });
    const sold = await group([await mirror()], {
      rewriting: { path: { strip: "", prefix: "/internal" } },
    });
    const question = await send(sold.shop.port, { path: "/weather" });
    expect(JSON.parse(question.body.toString())).toMatchObject({
      accepts: [{ resource: "https://shop.example/weather" }],
    });
    const answer = await buy(sold.shop, { path: "/weather" });
    expect(JSON.parse(answer.body.toString())).toMatchObject({ url: "/internal/weather" });
  });

  test("a path that does not begin with what is stripped is not sent, in whatever spelling", async () => {
    const target = await mirror();
    const of = await group([target], {
      rewriting: { path: { strip: "/free/a", prefix: "" } },
    });
    for (const path of ["/free/ab", "/free/A/b", "/free/b/free/a", "/free/a", "/free"]) {
      expect(await ask(of, { path })).toBe("502");
    }
    expect(target.seen).toEqual([]);
  });

  test("Host is the target's own, the client's, or a name", async () => {
    const target = await mirror();
    const hosts: unknown[] = [];
    for (const host of [
      { kind: "upstream" },
      { kind: "preserve" },
      { kind: "name", name: "api.internal" },
    ] as const) {
      const of = await group([target], { rewriting: { host } });
      const seen = JSON.parse(await ask(of, { headers: ["Host", "shop.example:99"] }));
      hosts.push(seen.headers.host);
    }
    expect(hosts).toEqual([`127.0.0.1:${target.port}`, "shop.example:99", "api.internal"]);
  });

  test("header lines are set in place of the client's, and removed both ways", async () => {
    const of = await group([await mirror()], {
      rewriting: { set: ["X-Api-Key", "secret"], remove: ["x-powered-by", "cookie"] },
    });
    const answer = await send(of.shop.port, {
      path: "/free",
      headers: ["x-api-key", "guess", "Cookie", "a=b", "X-Own", "c"],
    });
    const { headers } = JSON.parse(answer.body.toString());
    expect(headers).toMatchObject({ "x-api-key": "secret", "x-own": "c" });
    expect(headers.cookie).toBeUndefined();
    expect(answer.headers).toMatchObject({ "x-kept": "b", "set-cookie": ["c=d"] });
    expect(answer.headers["x-powered-by"]).toBeUndefined();
    const paid = await buy(of.shop, { headers: ["X-Api-Key", "guess"] });
    expect(JSON.parse(paid.body.toString()).headers["x-api-key"]).toBe("secret");
  });

  test("with a list of names nothing else of the client's crosses but what HTTP needs", async () => {
    const of = await group([await mirror()], {
      rewriting: { allow: ["authorization"] },
    });
    const lines = ["Authorization", "Bearer a", "Cookie", "a=b", "X-Own", "c", "Accept", "*/*"];
    const { headers } = JSON.parse(await ask(of, { headers: lines }));
    expect(headers).toMatchObject({
      authorization: "Bearer a",
      accept: "*/*",
      "x-forwarded-for": "127.0.0.1",
    });
    expect(Object.keys(headers)).not.toContain("cookie");
    expect(Object.keys(headers)).not.toContain("x-own");
    const paid = await buy(of.shop, { headers: ["Cookie", "a=b"] });
    const told = JSON.parse(paid.body.toString()).headers;
    expect(told).toMatchObject({ "x-402-payer": expect.stringMatching(/^0x/) });
    expect(told.cookie).toBeUndefined();
  });
});
