import { expect, test } from "vitest";
import { ask, stage } from "./endpoints-stage.ts";

test.each([
  ["/v2/discovery/resources", "v2"],
  ["/v2/discovery/search", "search"],
  ["/discovery/search", "search"],
])("%s is answered in the form of version 2, to those who may call", async (path, form) => {
  const at = await stage();
  expect(await ask(at, `${path}?query=a&limit=5`)).toMatchObject({ status: 200 });
  expect(at.queries).toEqual([`${form}: query=a&limit=5`]);
  expect(await ask(await stage({ bearer: "secret" }), path)).toMatchObject({ status: 401 });
});

test("GET /supported tells kinds on closed networks all the same, and which those are", async () => {
  let closed = "base";
  const kinds = [
    { x402Version: 1, scheme: "exact", network: "base-sepolia" },
    { x402Version: 2, scheme: "exact", network: "eip155:84532" },
  ];
  const facilitator = { supported: async () => ({ kinds }) };
  const at = await stage({ facilitator, isClosed: (network) => network === closed });
  expect((await ask(at, "/supported")).body).not.toHaveProperty("closed");
  closed = "base-sepolia";
  const told = { kinds, closed: ["base-sepolia"] };
  expect(await ask(at, "/supported")).toMatchObject({ status: 200, body: told });
});
