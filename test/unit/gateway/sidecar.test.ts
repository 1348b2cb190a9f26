import { describe, expect, test, vi } from "vitest";
import { HeldAnswers } from "../../../src/gateway/sidecar/held-answers.ts";
import { IncomingMessage } from "node:http";
import { Socket } from "node:net";
import { DIALECTS } from "../../../src/gateway/sidecar/dialect.ts";
import { readOriginal } from "../../../src/gateway/sidecar/original-request.ts";
import { Passes } from "../../../src/gateway/sidecar/passes.ts";

const answer = (body: string) => ({ status: 402, lines: [], body });

describe("an answer that a proxy fetches", () => {
  test("is given out once, under its own name only", () => {
    const held = new HeldAnswers();
    const first = held.hold(answer("first"));
    const second = held.hold(answer("second"));

    expect(first).not.toBe(second);
    expect(held.take("another name")).toBeUndefined();
    expect(held.take(second)?.body).toBe("second");
    expect(held.take(first)?.body).toBe("first");
    expect(held.take(first)).toBeUndefined();
  });

  test("is forgotten before the newer ones when too many wait", () => {
    const held = new HeldAnswers();
    const names = Array.from({ length: 5_000 }, (_, index) => held.hold(answer(String(index))));
    const found = names.map((name) => held.take(name)?.body).filter((body) => body !== undefined);

    expect(found).toHaveLength(4_096);
    expect(found.at(-1)).toBe("4999");
  });
});

describe("a pass that is reported about", () => {
  test("ends with the first status, and with no other", async () => {
    const passes = new Passes(60_000, () => undefined);
    const { id, status } = passes.open();

    expect(passes.report(id, 502)).toBe(true);
    expect(passes.report(id, 200)).toBe(false);
    await expect(status).resolves.toBe(502);
  });

  test("counts as served where no report comes in time, and when none can come any more", async () => {
    const onUnreported = vi.fn<() => void>();
    const late = new Passes(1, onUnreported).open();
    const passes = new Passes(60_000, onUnreported);
    const open = passes.open();
    passes.close();

    await expect(late.status).resolves.toBe(200);
    await expect(open.status).resolves.toBe(200);
    expect(onUnreported).toHaveBeenCalledTimes(1);
  });
});

describe("the host that a client asks", () => {
  function hostOf(proxy: keyof typeof DIALECTS, ...forwarded: readonly string[]): unknown {
    const check = new IncomingMessage(new Socket());
    const lines = ["Host", "check.example", "X-Forwarded-For", "192.0.2.9"];
    check.rawHeaders = [...lines, ...forwarded.flatMap((each) => ["X-Forwarded-Host", each])];
    check.headers = { host: "check.example", "x-forwarded-host": forwarded.join(", ") };
    const read = readOriginal(check, DIALECTS[proxy], { method: "GET", uri: "/" });
    if (!read.ok) return read.error;
    const { headers, rawHeaders } = read.value;
    expect(rawHeaders[rawHeaders.indexOf("Host") + 1]).toBe(headers.host);
    expect(rawHeaders.filter((each) => each === "Host")).toHaveLength(1);
    return headers.host;
  }

  test("is that of the check where the proxy passes it on, whatever its client has forwarded", () => {
    for (const proxy of ["nginx", "haproxy", "envoy"] as const) {
      expect(hostOf(proxy, "other.example")).toBe("check.example");
    }
  });

  test("is what the proxy says where it asks under a name of its own, once", () => {
    for (const proxy of ["caddy", "traefik"] as const) {
      expect(hostOf(proxy, "shop.example")).toBe("shop.example");
      const twice = "the line x-forwarded-host is there 2 times";
      expect(hostOf(proxy, "shop.example", "other.example")).toBe(twice);
    }
  });
});
