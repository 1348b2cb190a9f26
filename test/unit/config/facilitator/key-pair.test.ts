import { describe, expect, test } from "vitest";
import { keyPairFault } from "../../../../src/config/facilitator/key-pair.ts";
import { EXPIRED, FIRST, SECOND } from "../../../support/listener-tls.ts";

const NOW = Date.UTC(2026, 0, 1);

function codeAt(now: number): string {
  return keyPairFault(EXPIRED.cert, EXPIRED.key, now)?.code ?? "good";
}

describe("a certificate", () => {
  test("that is good, with what it is signed by behind it, has no fault", () => {
    expect(keyPairFault(FIRST.cert, FIRST.key, NOW)).toBeNull();
    expect(keyPairFault(FIRST.cert + SECOND.cert, FIRST.key, NOW)).toBeNull();
    expect(keyPairFault(FIRST.cert.replaceAll("\n", "\r\n"), FIRST.key, NOW)).toBeNull();
  });

  test("is good from its first moment on and until its last", () => {
    const first = Date.UTC(2020, 0, 1);
    const last = Date.UTC(2021, 0, 1);
    expect([first - 1, first, last - 1, last].map(codeAt)).toEqual([
      "young-certificate",
      "good",
      "good",
      "expired-certificate",
    ]);
    expect(keyPairFault(EXPIRED.cert, EXPIRED.key, NOW)?.severity).toBe("warning");
  });

  test("never has a word of the key in its fault", () => {
    const [, secret = ""] = FIRST.key.split("\n");
    for (const [cert, key] of [
      [FIRST.key, FIRST.cert],
      [SECOND.cert, FIRST.key],
      [FIRST.key, FIRST.key],
      [FIRST.cert, FIRST.key.slice(0, 120)],
    ] as const) {
      const found = keyPairFault(cert, key, NOW);
      expect(found?.severity).toBe("error");
      expect(JSON.stringify(found)).not.toContain(secret.slice(0, 16));
    }
  });
});
