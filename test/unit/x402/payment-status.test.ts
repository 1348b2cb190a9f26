import { describe, expect, test } from "vitest";
import type { PaymentKey } from "../../../src/x402/payment-key.ts";
import { PaymentStatusUrls } from "../../../src/x402/payment-status.ts";

const KEY = `base/0x${"ab".repeat(20)}/0x${"cd".repeat(20)}/0x${"ef".repeat(32)}` as PaymentKey;
const publicUrl = "https://shop.example.com/api";
const urls = new PaymentStatusUrls({ key: Buffer.alloc(32, 7), publicUrl });
const pathOf = (url: string): string => url.slice(publicUrl.length);

describe("the URL of a payment's status", () => {
  test("is below the public address, and leads back to its payment", () => {
    const url = urls.of(KEY);
    expect(url).toMatch(
      /^https:\/\/shop\.example\.com\/api\/\.well-known\/x402\/payments\/[\w-]+\.[\w-]{22}$/,
    );
    expect(urls.read(pathOf(url))).toBe(KEY);
  });

  test("is of no payment for whoever has made it up, or has another secret", () => {
    const path = pathOf(urls.of(KEY));
    const [name = "", mac = ""] = path.split(/\.(?=[\w-]+$)/);
    const other = urls.of(`${KEY}0` as PaymentKey);
    const others = new PaymentStatusUrls({ key: Buffer.alloc(32, 8), publicUrl });
    const wrong = [
      `${name}.`,
      name,
      `${name}.${mac}.`,
      `${name}.${mac.slice(0, -2)}`,
      `${pathOf(other).split(/\.(?=[\w-]+$)/)[0]}.${mac}`,
      pathOf(others.of(KEY)),
      "/.well-known/x402/payments/",
      `/.well-known/x402/payments/${"a".repeat(600)}`,
    ];
    for (const each of wrong) expect(urls.read(each)).toBeNull();
    for (const each of ["/", "/.well-known/x402", "/.well-known/x402/payments"]) {
      expect(urls.read(each)).toBeUndefined();
    }
  });
});
