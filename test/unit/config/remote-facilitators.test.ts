import { describe, expect, test } from "vitest";
import { GATEWAY, parse, ROUTES } from "./fixture.ts";

const withFacilitator = (block: string): string =>
  GATEWAY.replace(/^facilitator:.*$/m, `facilitator:\n${block}`) + ROUTES;

describe("remote facilitators", () => {
  test("are believed unless a receipt is asked for", () => {
    const short = parse(GATEWAY + ROUTES).facilitator;
    expect(short.remote).toMatchObject([{ confirm: "facilitator" }]);
    expect(short.observed).toEqual([]);
    const { remote } = parse(
      withFacilitator(`
  remote:
    - https://one.example.com
    - { url: https://two.example.com }
    - { url: https://three.example.com, confirm: facilitator }
    - { url: https://four.example.com, confirm: receipt }
  rpc: { base-sepolia: [https://rpc.example.com] }`),
    ).facilitator;
    expect(remote.map(({ confirm }) => confirm)).toEqual([
      "facilitator",
      "facilitator",
      "facilitator",
      "receipt",
    ]);
  });

  test("come with the chains that can be asked about them, their URLs secret", () => {
    const { observed } = parse(
      withFacilitator(`
  remote: [https://facilitator.example.com]
  rpc: { base-sepolia: ["https://rpc.example.com/v2/key", https://other.example.com] }`),
    ).facilitator;
    const [network] = observed;
    expect(network).toMatchObject({ network: "base-sepolia", confirmations: 1 });
    expect(network?.rpc.map(({ host }) => host)).toEqual(["rpc.example.com", "other.example.com"]);
    expect(network?.rpc[0]?.url.reveal()).toBe("https://rpc.example.com/v2/key");
    expect(network?.assets.map(({ symbol }) => symbol)).toEqual(["USDC"]);
    expect(JSON.stringify(observed)).not.toContain("/v2/key");
  });

  test("are not observed where this process settles itself", () => {
    const { observed, remote } = parse(
      withFacilitator(`
  embedded: { networks: { base-sepolia: { rpc: ["http://127.0.0.1:1"], signers: [env:KEY] } } }
  remote: [{ url: https://facilitator.example.com, confirm: receipt }]
  rpc: { base-sepolia: [https://rpc.example.com] }`),
    ).facilitator;
    expect(observed).toEqual([]);
    expect(remote.length).toBe(1);
  });
});
