import { expect, test } from "vitest";
import {
  frontPart,
  pack,
  packSteps,
  FeePayerNews,
  unpack,
  unpackParts,
} from "../../../src/app/start-order.ts";
import { atOnce } from "../../../src/time/breath.ts";
import { Secret } from "../../../src/config/facilitator/secret.ts";
import { Offers } from "../../../src/payments/sale/offers.ts";
import { solanaRequirements } from "../payments/sale/solana-payment.ts";
import { configOf } from "./config-of.ts";

const TOKEN = "the-token-of-the-facilitator";
const HEADER = "the-key-of-the-backend";
const config = configOf(
  `
publicUrl: http://localhost:8402
payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"
accept: [base-sepolia]
upstreams: { api: { targets: [http://localhost:3000], headers: { set: { X-Key: "\${HEADER}" } } } }
facilitator:
  embedded: { networks: { base-sepolia: { rpc: ["http://localhost:1"], signers: [env:EVM_KEY] } } }
  remote: [{ url: "https://facilitator.example.com", headers: { Authorization: "Bearer \${TOKEN}" } }]
unmatched: deny
workers: auto
routes:
  GET /weather: $0.01
`,
  { EVM_KEY: `0x${"5a".repeat(32)}`, TOKEN, HEADER },
);

test("the front's part of a configuration crosses whole, what it keeps secret included", () => {
  const part = frontPart(config);
  const crossed = unpack(structuredClone(pack(part)));
  expect(crossed).toEqual(part);
  const [upstream] = frontPart(crossed as typeof part).upstreams;
  const secret = upstream?.headers.set[0]?.value;
  expect(secret).toBeInstanceOf(Secret);
  expect(secret?.reveal()).toBe(HEADER);
  const action = config.routes[0]?.action;
  expect(action?.kind === "priced" && action.offers[0]?.amountAtomic).toBe(10_000n);
});

test("what has long lists crosses in parts, a step for each, and is the same behind", () => {
  for (const length of [0, 1, 100, 101, 1_000]) {
    const routes = Array.from({ length }, (_, number) => ({
      key: `GET /${number}`,
      atomic: BigInt(number),
      secret: new Secret(`s${number}`),
      bytes: new Uint8Array([number % 256]),
      inner: [[number], { deep: Array.from({ length: 3 }, () => "x") }],
    }));
    const value = { config: frontPart(config), routes, earlier: [{ config: { routes }, at: 7 }] };
    let count = 0;
    const steps = packSteps(value);
    for (let step = steps.next(); ; step = steps.next()) {
      if (step.done !== true) {
        count += 1;
        continue;
      }
      const crossed = unpackParts(structuredClone(step.value));
      expect(crossed).toEqual(value);
      break;
    }
    expect(count).toBe(length > 100 ? 2 * Math.ceil(length / 100) : 0);
  }
  const { parts, value } = atOnce(packSteps(Array.from({ length: 250 }, (_, number) => number)));
  expect(parts).toHaveLength(3);
  expect(value).toBeInstanceOf(Map);
});

test("no key of ours and no facilitator's token is in it", () => {
  const crossing = JSON.stringify(pack(frontPart(config)), (_name, value: unknown) => {
    if (value instanceof Map) return [...value];
    return typeof value === "bigint" ? value.toString() : value;
  });
  expect(crossing).toContain(HEADER);
  expect(crossing).not.toContain(TOKEN);
  expect(crossing).not.toContain("5a5a");
});

test("what others sell crosses as they wrote it, and none of it is taken for a secret of ours", () => {
  const odd = [
    '{"packedSecret":"x","secret":"y"}',
    '{"packedSecret":1,"__proto__":{"a":1}}',
    '[["packedSecret","x"]]',
  ];
  for (const json of odd) {
    const crossed = unpack(structuredClone(pack({ output: JSON.parse(json) })));
    expect(JSON.stringify(crossed)).toBe(`{"output":${json}}`);
  }
});

test("another fee payer is asked for as soon as it is told, and its loss is noticed", () => {
  const { resource: _url, extra: _extra, ...offer } = solanaRequirements();
  const told = new FeePayerNews([[offer.network, "first"]]);
  const offers = new Offers([offer], told);
  const asked = (): unknown => offers.accepts("http://localhost/")[0]?.extra;
  expect(asked()).toEqual({ feePayer: "first" });
  told.tell([[offer.network, "second"]]);
  expect(asked()).toEqual({ feePayer: "second" });
  told.tell([]);
  expect(offers.areNone).toBe(true);
});
