/** What each answer of the gateway's own tells, whatever it is about. */
import { expect, test } from "vitest";
import { DryGateway } from "../../../src/diagnosis/dry-gateway.ts";
import { selling } from "./selling.ts";

const ROUTES = ["GET /a: $0.01", "GET /denied: deny"];
const OWN: readonly (readonly [status: number, method: string, target: string])[] = [
  [402, "GET", "/a"],
  [400, "GET", "/a/%2e%2e%2fb"],
  [403, "GET", "/denied"],
  [404, "GET", "/nowhere"],
  [405, "PUT", "/a"],
];

/** By lower-case name. */
function linesOf(more: string, method: string, target: string) {
  const gateway = new DryGateway(selling({ routes: ROUTES, more }));
  const headers = ["Origin", "https://app.example"];
  const { answer } = gateway.ask({ method, target, headers });
  const lines = answer?.lines ?? [];
  const names = lines.map((name, index) => (index % 2 === 0 ? name.toLowerCase() : ""));
  const values = (name: string): readonly string[] =>
    lines.filter((_, index) => index % 2 === 1 && names[index - 1] === name);
  return { status: answer?.status, values };
}

test.each(OWN)("a page of another origin may read %i (%s %s)", (status, method, target) => {
  const any = linesOf("cors: true", method, target);
  expect(any.status).toBe(status);
  expect(any.values("access-control-allow-origin")).toEqual(["*"]);
  const exposed = any.values("access-control-expose-headers");
  expect(exposed).toHaveLength(1);
  for (const name of ["Retry-After", "ETag", "Content-Range", "Content-Disposition", "Link"]) {
    expect(exposed[0]?.split(", ")).toContain(name);
  }
  const one = linesOf("cors: { origins: [https://app.example] }", method, target);
  expect(one.values("access-control-allow-origin")).toEqual(["https://app.example"]);
  expect(one.values("vary")).toEqual(["Origin"]);
  const other = linesOf("cors: { origins: [https://other.example] }", method, target);
  expect(other.values("access-control-allow-origin")).toEqual([]);
  const off = linesOf("", method, target);
  expect(off.values("access-control-allow-origin")).toEqual([]);
  expect(off.values("vary")).toEqual([]);
});

test.each(OWN)(
  "%i (%s %s) names where help is only where money is asked for",
  (status, ...asked) => {
    const { values } = linesOf("support: help@example.com", ...asked);
    const help = status === 402 ? ['<mailto:help@example.com>; rel="help"'] : [];
    expect(values("link")).toEqual(help);
    expect(linesOf("", ...asked).values("link")).toEqual([]);
  },
);

test("names where help is beside other links, once", () => {
  const gateway = new DryGateway(
    selling({
      routes: ["GET /a: $0.01"],
      more: "support: help@example.com\npasses: { day: { price: $1, routes: [GET /a], for: 24h } }",
    }),
  );
  const lines = gateway.ask({ method: "GET", target: "/a" }).answer?.lines ?? [];
  const links = lines.filter((_, index) => lines[index - 1] === "Link");
  expect(links).toEqual([
    expect.stringContaining("/.x402/passes/day>"),
    '<mailto:help@example.com>; rel="help"',
  ]);
});
