import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { hostFor, rewriteTarget } from "../../../../../src/gateway/upstream/backend/rewriting.ts";
import { readTarget } from "../../../../../src/gateway/paths/target.ts";
import type { InboundRequest } from "../../../../../src/gateway/message/inbound.ts";

describe("a path", () => {
  test.each([
    // target, strip, prefix, sent
    ["/v1/a", "/v1", "", "/a"],
    ["/v1/a", "/v1", "/internal", "/internal/a"],
    ["/v1/", "/v1", "", "/"],
    ["/v1/", "/v1", "/internal", "/internal/"],
    ["/v1", "/v1", "/internal", "/internal"],
    ["/v1?a=/v1", "/v1", "/internal", "/internal?a=/v1"],
    ["/v1/a?", "/v1", "", "/a?"],
    ["/v1/v1/a", "/v1", "", "/v1/a"],
    ["/a", "", "/internal", "/internal/a"],
    ["/", "", "/internal", "/internal/"],
    ["/a//b", "", "", "/a//b"],
  ])("%s loses %s and gets %s: %s", (target, strip, prefix, sent) => {
    expect(rewriteTarget(target, { strip, prefix })).toBe(sent);
  });

  test.each([
    ["/v10/a", "/v1", "/internal"],
    ["/V1/a", "/v1", "/internal"],
    ["/v1%2Fa", "/v1", "/internal"],
    ["/v1;a/b", "/v1", "/internal"],
    ["/x/v1/a", "/v1", "/internal"],
    ["/", "/v1", "/internal"],
    // Nothing would be left but "/", which is what /v1/ is sent as.
    ["/v1", "/v1", ""],
    ["/v1?a", "/v1", ""],
  ])("%s does not begin with the segments of %s", (target, strip, prefix) => {
    expect(rewriteTarget(target, { strip, prefix })).toBeNull();
  });
});

const segment = fc.constantFrom("a", "v1", "A", "%C3%A9", "a.b", "~", "a-b", ":c", "*");
const canonical = fc
  .tuple(fc.array(segment, { maxLength: 4 }), fc.boolean())
  .map(([segments, ends]) => `/${segments.join("/")}${ends && segments.length > 0 ? "/" : ""}`);
const fixed = fc
  .array(segment, { maxLength: 2 })
  .map((segments) => segments.map((each) => `/${each}`).join(""));
const query = fc.constantFrom("", "?", "?a=1", "?/v1/../x");

describe("whatever is stripped and put before", () => {
  test("a canonical path stays canonical, and keeps its query", () => {
    fc.assert(
      fc.property(canonical, query, fixed, fixed, (path, rest, strip, prefix) => {
        const sent = rewriteTarget(path + rest, { strip, prefix });
        if (sent === null) return;
        const read = readTarget("GET", sent, new Set());
        expect(read).toMatchObject({ kind: "ok", raw: sent, query: rest.slice(1) });
      }),
    );
  });

  test("two paths never become one", () => {
    fc.assert(
      fc.property(canonical, canonical, fixed, fixed, (one, other, strip, prefix) => {
        fc.pre(one !== other);
        const sent = rewriteTarget(one, { strip, prefix });
        if (sent !== null) expect(rewriteTarget(other, { strip, prefix })).not.toBe(sent);
      }),
    );
  });
});

function asked(host: string | undefined): InboundRequest {
  return { headers: host === undefined ? {} : { host } } as InboundRequest;
}

describe("Host", () => {
  test("is the target's own, a name, or what the client wrote", () => {
    const request = asked("shop.example:8443");
    expect(hostFor(request, { kind: "upstream" })).toBeNull();
    expect(hostFor(request, { kind: "name", name: "api.internal" })).toBe("api.internal");
    expect(hostFor(request, { kind: "preserve" })).toBe("shop.example:8443");
  });

  test.each([undefined, "", "a b", "a/b", "a@b", "a,b", "a:b", "[::1", "evil.example\\@shop"])(
    "that is no host is not passed on: %s",
    (host) => {
      expect(hostFor(asked(host), { kind: "preserve" })).toBeNull();
    },
  );
});
