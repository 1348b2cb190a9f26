import { describe, expect, it } from "vitest";
import { termsHash, type CatalogueEntry } from "../../../src/discovery/discovery.ts";
import { entry, ORIGIN, requirementsFor } from "./example-entry.ts";

describe("the hash of a route's public terms", () => {
  const weather = entry("/weather", { metadata: { category: "weather", provider: "Example" } });

  it("is a SHA-256 in hex", () => {
    expect(termsHash(weather)).toMatch(/^[0-9a-f]{64}$/);
  });

  it("stays the same whatever the order of members and the time of the last change", () => {
    const accepts = weather.accepts.map(({ scheme, network, ...rest }) => {
      return { ...rest, network, scheme };
    });
    const metadata = { provider: "Example", category: "weather" };
    const reordered = { lastUpdated: 1, metadata, accepts, isTemplate: false };
    expect(termsHash({ ...reordered, methods: ["GET"], resource: weather.resource })).toBe(
      termsHash(weather),
    );
  });

  it.each<[string, Partial<CatalogueEntry>]>([
    ["the resource", { resource: `${ORIGIN}/other` }],
    ["the template", { isTemplate: true }],
    ["the metadata", { metadata: { category: "news", provider: "Example" } }],
    ["a metadata member's absence", { metadata: { category: "weather" } }],
    ["the price", { accepts: [{ ...requirementsFor(weather.resource), maxAmountRequired: "1" }] }],
    ["the offers", { accepts: [...weather.accepts, ...weather.accepts] }],
    ["no offer", { accepts: [] }],
  ])("changes with %s", (_, change) => {
    expect(termsHash({ ...weather, ...change })).not.toBe(termsHash(weather));
  });

  it("changes with the order of the offers, which buyers see", () => {
    const [first] = weather.accepts;
    const second = { ...requirementsFor(weather.resource), network: "base" };
    const accepts = first === undefined ? [] : [first, second];
    expect(termsHash({ ...weather, accepts })).not.toBe(
      termsHash({ ...weather, accepts: accepts.toReversed() }),
    );
  });
});
