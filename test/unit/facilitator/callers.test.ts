import { describe, expect, test } from "vitest";
import { Callers } from "../../../src/facilitator/callers.ts";

const callers = new Callers([
  { gateway: null, bearer: "shared" },
  { gateway: "weather", bearer: "weather-token" },
  { gateway: "maps", bearer: "maps-token" },
]);

describe("whoever shows a token", () => {
  test.each([
    ["Bearer shared", null],
    ["Bearer weather-token", "weather"],
    ["bearer maps-token", "maps"],
    ["BEARER maps-token", "maps"],
  ])("%s is known", (authorization, gateway) => {
    expect(callers.identify(authorization)).toEqual({ gateway });
  });

  test.each([
    undefined,
    "",
    "Bearer",
    "Bearer ",
    "Bearer Weather-Token",
    "Bearer weather-token ",
    "Bearer  weather-token",
    "Bearer weather-toke",
    "Bearer shared, Bearer maps-token",
    "Basic shared",
    "shared",
  ])("%s is not", (authorization) => {
    expect(callers.identify(authorization)).toBeUndefined();
  });
});

test("without tokens everybody may call, under no name", () => {
  const open = new Callers([]);
  expect(open.identify(undefined)).toEqual({ gateway: null });
  expect(open.identify("Bearer anything")).toEqual({ gateway: null });
});
