import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { MAX_UINT256 } from "../../../src/x402/amount.ts";
import { parseFacilitatorRequest, parsePaymentPayload } from "../../../src/x402/schema.ts";
import { exampleRequest } from "./example-request.ts";

const ABSENT = Symbol("absent");
/** Its name, and the JSON value or {@link ABSENT}. */
type Fault = readonly [string, unknown];

/** The example with the member at a path replaced, or taken away. */
function spoilt(path: string, value: unknown): unknown {
  const replace = (node: unknown, [name = "", ...rest]: readonly string[]): unknown => {
    const members = new Map(Object.entries(node ?? {}));
    if (rest.length > 0) members.set(name, replace(members.get(name), rest));
    else if (value === ABSENT) members.delete(name);
    else members.set(name, value);
    return Object.fromEntries(members);
  };
  return replace(exampleRequest(), path.split("."));
}

/** `ok`, or status and code of the refusal. */
function judged(body: unknown): string {
  const result = parseFacilitatorRequest(body);
  return result.ok ? "ok" : `${result.error.status} ${result.error.code}`;
}

const NOT_STRINGS: readonly Fault[] = [
  ["absent", ABSENT],
  ["null", null],
  ["a number", 1],
  ["a boolean", true],
  ["an array", ["1"]],
  ["an object", {}],
];
const NOT_OBJECTS: readonly Fault[] = [
  ["absent", ABSENT],
  ["null", null],
  ["a number", 1],
  ["a string", "{}"],
  ["an array", []],
];
const NOT_UINT256: readonly Fault[] = [
  ...NOT_STRINGS,
  ["empty", ""],
  ["negative", "-1"],
  ["signed", "+1"],
  ["hex", "0x2710"],
  ["with an exponent", "1e4"],
  ["a fraction", "10000.0"],
  ["with a leading zero", "010000"],
  ["with a space", "10000 "],
  ["a word", "ten"],
  ["NaN", "NaN"],
  ["2^256", (MAX_UINT256 + 1n).toString()],
  ["a thousand digits", "9".repeat(1000)],
];
const NOT_ADDRESSES: readonly Fault[] = [
  ...NOT_STRINGS,
  ["empty", ""],
  ["without 0x", "a".repeat(40)],
  ["too short", `0x${"a".repeat(39)}`],
  ["too long", `0x${"a".repeat(41)}`],
  ["not hex", `0x${"g".repeat(40)}`],
  ["a name", "vitalik.eth"],
];
const NOT_NAMES: readonly Fault[] = [...NOT_STRINGS, ["too long", "x".repeat(129)]];
const NOT_TEXTS: readonly Fault[] = [...NOT_STRINGS, ["too long", "x".repeat(8193)]];

const PAYLOAD = "paymentPayload.payload";
const FAULTS: readonly {
  readonly code: string;
  readonly paths: readonly string[];
  readonly values: readonly Fault[];
}[] = [
  {
    code: "invalid_payload",
    paths: ["paymentPayload", PAYLOAD, `${PAYLOAD}.authorization`],
    values: NOT_OBJECTS,
  },
  {
    code: "invalid_payload",
    paths: ["paymentPayload.scheme", "paymentPayload.network"],
    values: NOT_NAMES,
  },
  {
    code: "invalid_payload",
    paths: ["value", "validAfter", "validBefore"].map((name) => `${PAYLOAD}.authorization.${name}`),
    values: NOT_UINT256,
  },
  {
    code: "invalid_payload",
    paths: ["from", "to"].map((name) => `${PAYLOAD}.authorization.${name}`),
    values: NOT_ADDRESSES,
  },
  {
    code: "invalid_payload",
    paths: [`${PAYLOAD}.authorization.nonce`],
    values: [
      ...NOT_STRINGS,
      ["empty", ""],
      ["31 bytes", `0x${"ab".repeat(31)}`],
      ["33 bytes", `0x${"ab".repeat(33)}`],
      ["without 0x", "ab".repeat(32)],
      ["decimal", "1".repeat(64)],
      ["not hex", `0x${"zz".repeat(32)}`],
    ],
  },
  {
    code: "invalid_payload",
    paths: [`${PAYLOAD}.signature`],
    values: [
      ...NOT_STRINGS,
      ["empty", ""],
      ["half a byte", "0xabc"],
      ["without 0x", "ab".repeat(65)],
      ["not hex", `0x${"zz".repeat(65)}`],
      ["oversized", `0x${"ab".repeat(8192)}`],
    ],
  },
  {
    code: "invalid_payload",
    paths: ["paymentPayload.x402Version"],
    values: [
      ["absent", ABSENT],
      ["null", null],
      ["a string", "1"],
      ["a boolean", true],
      ["an array", [1]],
    ],
  },
  {
    code: "invalid_payload",
    paths: ["x402Version"],
    values: [
      ["a string", "1"],
      ["an object", {}],
    ],
  },
  {
    code: "invalid_payment_requirements",
    paths: ["paymentRequirements"],
    values: NOT_OBJECTS,
  },
  {
    code: "invalid_payment_requirements",
    paths: ["scheme", "network", "asset", "payTo"].map((name) => `paymentRequirements.${name}`),
    values: NOT_NAMES,
  },
  {
    code: "invalid_payment_requirements",
    paths: ["paymentRequirements.description"],
    values: NOT_TEXTS,
  },
  {
    code: "invalid_payment_requirements",
    paths: ["paymentRequirements.resource"],
    values: [...NOT_STRINGS, ["too long", "x".repeat(16_385)]],
  },
  {
    code: "invalid_payment_requirements",
    paths: ["paymentRequirements.maxAmountRequired"],
    values: NOT_UINT256,
  },
  {
    code: "invalid_payment_requirements",
    paths: ["paymentRequirements.maxTimeoutSeconds"],
    values: [
      ["absent", ABSENT],
      ["null", null],
      ["a string", "60"],
      ["a fraction", 60.5],
      ["zero", 0],
      ["negative", -60],
      ["oversized", 2 ** 31 + 1],
      ["unsafe", 1e300],
    ],
  },
  {
    code: "invalid_payment_requirements",
    paths: ["paymentRequirements.mimeType"],
    values: [
      ["a number", 1],
      ["an object", {}],
      ["too long", "x".repeat(257)],
    ],
  },
  {
    code: "invalid_payment_requirements",
    paths: ["paymentRequirements.outputSchema", "paymentRequirements.extra"],
    values: [
      ["a string", "{}"],
      ["a number", 1],
      ["an array", []],
      ["a boolean", false],
    ],
  },
];

describe("a facilitator request", () => {
  it("is read where it has the shape of sections 2.1 and 2.2", () => {
    const { paymentPayload, paymentRequirements } = exampleRequest();
    expect(parseFacilitatorRequest(exampleRequest())).toEqual({
      ok: true,
      value: { paymentPayload, paymentRequirements },
    });
  });

  for (const { code, paths, values } of FAULTS) {
    for (const path of paths) {
      it.each(values)(`is 400 ${code} where ${path} is %s`, (_, value) => {
        expect(judged(spoilt(path, value))).toBe(`400 ${code}`);
      });
    }
  }

  it.each([
    ["null", null],
    ["absent", undefined],
    ["a string", "{}"],
    ["a number", 1],
    ["an array", [exampleRequest()]],
    ["empty", {}],
  ])("is 400 invalid_payload where the body is %s", (_, body) => {
    expect(judged(body)).toBe("400 invalid_payload");
  });

  it.each([0, 3, -1, 1.5, 1e300])("is judged, 200, where it asks for version %d", (version) => {
    for (const path of ["x402Version", "paymentPayload.x402Version"]) {
      const result = parseFacilitatorRequest(spoilt(path, version));
      expect(result).toMatchObject({
        ok: false,
        error: {
          status: 200,
          code: "invalid_x402_version",
          network: "base-sepolia",
          payer: exampleRequest().paymentPayload.payload.authorization.from,
        },
      });
    }
  });

  it("is of another version before it is malformed: the rest of another version is not ours to read", () => {
    const body = { ...exampleRequest(), paymentPayload: { x402Version: 3 } };
    expect(judged(body)).toBe("200 invalid_x402_version");
  });

  it("may leave out the version beside the payment", () => {
    expect(judged(spoilt("x402Version", ABSENT))).toBe("ok");
    expect(judged(spoilt("x402Version", null))).toBe("ok");
  });

  it.each(["mimeType", "outputSchema", "extra"])("may leave %s out, or null", (name) => {
    for (const value of [ABSENT, null]) {
      const result = parseFacilitatorRequest(spoilt(`paymentRequirements.${name}`, value));
      expect(result.ok && result.value.paymentRequirements).not.toHaveProperty(name);
      expect(result.ok).toBe(true);
    }
  });

  it("may hold a resource with the longest path and query, and the longest description", () => {
    const resource = `https://api.example.com/${"p".repeat(4095)}?${"q".repeat(8191)}`;
    expect(judged(spoilt("paymentRequirements.resource", resource))).toBe("ok");
    expect(judged(spoilt("paymentRequirements.resource", resource.padEnd(16_384)))).toBe("ok");
    expect(judged(spoilt("paymentRequirements.description", "x".repeat(8192)))).toBe("ok");
  });

  it("may hold empty texts, the largest uint256 and the longest timeout", () => {
    expect(judged(spoilt("paymentRequirements.description", ""))).toBe("ok");
    expect(judged(spoilt("paymentRequirements.mimeType", ""))).toBe("ok");
    expect(judged(spoilt("paymentRequirements.maxTimeoutSeconds", 2 ** 31))).toBe("ok");
    expect(judged(spoilt(`${PAYLOAD}.authorization.value`, MAX_UINT256.toString()))).toBe("ok");
  });

  it("leaves signatures of every length to the mechanism, up to its limit", () => {
    for (const bytes of [0, 1, 64, 65, 66, 8190]) {
      expect(judged(spoilt(`${PAYLOAD}.signature`, `0x${"ab".repeat(bytes)}`))).toBe("ok");
    }
  });

  it("leaves schemes, networks and their payloads that are not ours unread", () => {
    expect(judged(spoilt("paymentPayload.scheme", "upto"))).toBe("ok");
    for (const network of ["eip155:8453", "nowhere", ""]) {
      const paymentPayload = { x402Version: 1, scheme: "exact", network, payload: { any: 1 } };
      expect(judged({ ...exampleRequest(), paymentPayload })).toBe("ok");
    }
  });

  it("reads the Solana payload on Solana networks and no other", () => {
    const solana = (payload: unknown): string => {
      const paymentPayload = { x402Version: 1, scheme: "exact", network: "solana", payload };
      return judged({ ...exampleRequest(), paymentPayload });
    };
    expect(solana({ transaction: "AQAB" })).toBe("ok");
    const faults = [undefined, null, 1, "", "not base64!", "AQ-_", "A".repeat(8193)];
    for (const transaction of faults) {
      expect(solana({ transaction })).toBe("400 invalid_payload");
    }
    expect(solana(exampleRequest().paymentPayload.payload)).toBe("400 invalid_payload");
    expect(judged(spoilt(PAYLOAD, { transaction: "AQAB" }))).toBe("400 invalid_payload");
  });

  it("drops what it does not know, and prototypes stay as they are", () => {
    const body: unknown = JSON.parse(
      JSON.stringify(exampleRequest()).replace(
        '"scheme"',
        '"__proto__":{"admin":true},"constructor":1,"scheme"',
      ),
    );
    const { paymentPayload, paymentRequirements } = exampleRequest();
    const result = parseFacilitatorRequest(body);
    expect(result).toEqual({ ok: true, value: { paymentPayload, paymentRequirements } });
    expect(Object.hasOwn(Object.prototype, "admin")).toBe(false);
    expect(result.ok && "admin" in result.value.paymentPayload).toBe(false);
  });

  it("is refused with a sentence that names the field and never repeats its content", () => {
    const content = "<script>alert(1)</script>";
    const result = parseFacilitatorRequest(spoilt(`${PAYLOAD}.authorization.nonce`, content));
    expect(result.ok ? "" : result.error.detail).toBe(
      "paymentPayload.payload.authorization.nonce must be 0x and 64 hex digits (32 bytes)",
    );
    for (const { paths, values } of FAULTS) {
      for (const [path, [, value]] of paths.flatMap((each) =>
        values.map((v) => [each, v] as const),
      )) {
        const fault = parseFacilitatorRequest(spoilt(path, value));
        const detail = fault.ok ? "" : fault.error.detail;
        expect(detail).toContain(path.split(".").at(-1));
        expect(detail.length).toBeLessThan(200);
      }
    }
  });

  it("never throws, whatever JSON it is, nor with any member replaced by any other value", () => {
    const paths = FAULTS.flatMap((fault) => fault.paths);
    const replaced = fc.tuple(fc.constantFrom(...paths), fc.jsonValue());
    const body = fc.oneof(
      fc.jsonValue(),
      replaced.map(([path, value]) => spoilt(path, value)),
    );
    fc.assert(
      fc.property(body, (each) => {
        expect(judged(each)).toMatch(
          /^(ok|400 invalid_payload|400 invalid_payment_requirements|200 invalid_x402_version)$/,
        );
      }),
      { numRuns: 3000 },
    );
  });
});

describe("a payment payload", () => {
  it("has the same shape as within a facilitator request", () => {
    for (const { paths, values } of FAULTS) {
      for (const path of paths.filter((each) => each.startsWith("paymentPayload."))) {
        for (const [, value] of values) {
          const body = new Map(Object.entries(spoilt(path, value) ?? {}));
          const result = parsePaymentPayload(body.get("paymentPayload"), 1);
          expect(result).toMatchObject({ ok: false, error: { code: "invalid_payload" } });
        }
      }
    }
    const { paymentPayload } = exampleRequest();
    expect(parsePaymentPayload(paymentPayload, 1)).toEqual({
      ok: true,
      value: { payment: paymentPayload },
    });
    expect(parsePaymentPayload({ ...paymentPayload, x402Version: 2 }, 1)).toMatchObject({
      error: { code: "invalid_x402_version" },
    });
  });
});
