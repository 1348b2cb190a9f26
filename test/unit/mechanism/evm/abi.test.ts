import * as fc from "fast-check";
import {
  decodeFunctionResult,
  encodeAbiParameters,
  encodeErrorResult,
  encodeFunctionData,
  encodeFunctionResult,
  multicall3Abi,
  parseAbi,
  type Hex,
} from "viem";
import { describe, expect, test } from "vitest";
import {
  addressWord,
  bytesWords,
  decodeAggregate3,
  encodeAggregate3,
  parseHexData,
  parseQuantity,
  revertText,
  toQuantity,
  uintWord,
} from "../../../../src/mechanism/evm/abi.ts";

const uint256 = fc.bigInt({ min: 0n, max: 2n ** 256n - 1n });
const address = fc
  .uint8Array({ minLength: 20, maxLength: 20 })
  .map((bytes): Hex => `0x${Buffer.from(bytes).toString("hex")}`);
const bytes = fc
  .uint8Array({ maxLength: 200 })
  .map((value): Hex => `0x${Buffer.from(value).toString("hex")}`);

describe("words", () => {
  test("are those of a general ABI encoder", () => {
    fc.assert(
      fc.property(uint256, address, bytes, (value, account, data) => {
        const expected = encodeAbiParameters(
          [{ type: "uint256" }, { type: "address" }, { type: "bytes" }],
          [value, account, data],
        );
        const words = uintWord(value) + addressWord(account) + uintWord(0x60);
        expect(`0x${words}${bytesWords(data.slice(2))}`).toBe(expected);
      }),
    );
  });
});

describe("aggregate3", () => {
  test("call data is that of a general ABI encoder", () => {
    const calls = fc.array(fc.record({ target: address, callData: bytes }), { maxLength: 5 });
    fc.assert(
      fc.property(calls, (list) => {
        const args = [list.map((call) => ({ ...call, allowFailure: true }))] as const;
        const expected = encodeFunctionData({
          abi: multicall3Abi,
          functionName: "aggregate3",
          args,
        });
        const own = list.map(({ target, callData }) => ({ target, callData: callData.slice(2) }));
        expect(`0x${encodeAggregate3(own)}`).toBe(expected);
      }),
    );
  });

  test("answers decode to what a general ABI encoder was given", () => {
    const results = fc.array(fc.record({ success: fc.boolean(), returnData: bytes }), {
      maxLength: 5,
    });
    fc.assert(
      fc.property(results, (list) => {
        const answer = encodeFunctionResult({
          abi: multicall3Abi,
          functionName: "aggregate3",
          result: list,
        });
        expect(decodeAggregate3(answer.slice(2))).toEqual(
          list.map(({ success, returnData }) => ({ success, returnData: returnData.slice(2) })),
        );
      }),
    );
  });

  test("decoding never throws, and agrees with a general decoder wherever both decode", () => {
    const word = fc.oneof(
      fc.constantFrom(0n, 1n, 2n, 0x20n, 0x40n, 0x60n, 0x80n, 2n ** 32n, 2n ** 255n),
      uint256,
    );
    fc.assert(
      fc.property(fc.array(word, { maxLength: 14 }), fc.nat(64), (words, cut) => {
        const hex = words.map(uintWord).join("");
        const text = hex.slice(0, Math.max(0, hex.length - cut * 2));
        const decoded = decodeAggregate3(text);
        if (decoded === undefined || decoded.length === 0) return;
        let expected: readonly { success: boolean; returnData: Hex }[];
        try {
          expected = decodeFunctionResult({
            abi: multicall3Abi,
            functionName: "aggregate3",
            data: `0x${text}`,
          });
        } catch {
          // A stricter reader: it refuses booleans other than 0 and 1, and pointers that go around.
          return;
        }
        expect(decoded.map(({ returnData }) => `0x${returnData}`)).toEqual(
          expected.map(({ returnData }) => returnData),
        );
      }),
      { numRuns: 500 },
    );
  });

  test("an empty answer does not decode", () => {
    expect(decodeAggregate3("")).toBeUndefined();
  });
});

describe("revert text", () => {
  const abi = parseAbi(["error Error(string)", "error Panic(uint256)", "error Odd(uint256)"]);
  const encode = (errorName: "Error" | "Panic" | "Odd", value: string | bigint) => {
    const data =
      typeof value === "string"
        ? encodeErrorResult({ abi, errorName: "Error", args: [value] })
        : encodeErrorResult({
            abi,
            errorName: errorName === "Odd" ? "Odd" : "Panic",
            args: [value],
          });
    return data.slice(2);
  };

  test("is the text of Error(string)", () => {
    expect(revertText(encode("Error", "FiatTokenV2: invalid signature"))).toBe(
      "FiatTokenV2: invalid signature",
    );
  });

  test("is printable and short whatever a contract writes", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary", maxLength: 400 }), (text) => {
        expect(revertText(encode("Error", text))).toMatch(/^[\x20-\x7e]{0,160}$/);
      }),
      { numRuns: 40 },
    );
  });

  test("names a panic and an error of the contract's own", () => {
    expect(revertText(encode("Panic", 17n))).toBe("panic 17");
    expect(revertText(encode("Odd", 1n))).toMatch(/^error 0x[0-9a-f]{8}$/);
  });

  test("is empty for an empty revert, and never throws on garbage", () => {
    expect(revertText("")).toBe("");
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 120 }), fc.boolean(), (data, asError) => {
        const hex = Buffer.from(data).toString("hex");
        expect(typeof revertText(asError ? `08c379a0${hex}` : hex)).toBe("string");
      }),
    );
  });
});

describe("what nodes write", () => {
  test.each(["0x0", "0x14a34", "0xFf"])("%s is a quantity", (text) => {
    expect(parseQuantity(text)).toBe(BigInt(text));
  });

  test.each(["0x", "", "12", "0x1g", "-0x1", ` 0x1`, `0x${"1".repeat(65)}`, 5, null, {}])(
    "%j is not a quantity",
    (value) => {
      expect(parseQuantity(value)).toBeUndefined();
    },
  );

  test("quantities round-trip", () => {
    fc.assert(
      fc.property(uint256, (value) => {
        expect(parseQuantity(toQuantity(value))).toBe(value);
      }),
    );
  });

  test.each(["0", "0x1", "0xzz", 7, undefined])("%j is not data", (value) => {
    expect(parseHexData(value)).toBeUndefined();
  });

  test("data is read in lower case without its prefix", () => {
    expect(parseHexData("0xABcd")).toBe("abcd");
    expect(parseHexData("0x")).toBe("");
  });
});
