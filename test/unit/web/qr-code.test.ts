/** Our QR codes beside those of a library, square by square. */
import { encode } from "uqr";
import { expect, test } from "vitest";
import { qrCode } from "../../../src/web/browser/qr-code.ts";

/** Bytes that the largest version has room for. */
const MOST = 271;

test("every text up to the longest is drawn as a library draws it", () => {
  for (let length = 0; length <= MOST; length += 1) {
    const text = "https://é.example/weather?city=Oslo&".repeat(20).slice(0, length);
    const bytes = [...new TextEncoder().encode(text)].slice(0, MOST);
    const written = new TextDecoder().decode(Uint8Array.from(bytes));
    const { data } = encode([...new TextEncoder().encode(written)], { maskPattern: 0, border: 0 });
    expect(qrCode(written), `${length} characters`).toEqual(data);
  }
  expect(qrCode("x".repeat(MOST))).toHaveLength(57);
});

test("a longer text is not drawn", () => {
  expect(qrCode("x".repeat(MOST + 1))).toBeNull();
});
