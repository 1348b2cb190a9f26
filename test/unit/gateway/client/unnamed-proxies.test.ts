import { expect, test } from "vitest";
import { TrustedProxies } from "../../../../src/gateway/client/trusted-proxies.ts";
import { UnnamedProxies } from "../../../../src/gateway/client/unnamed-proxies.ts";
import { arriving } from "../arriving.ts";

test("a proxy that is not named is told of once, and one that is named never", () => {
  const said: unknown[] = [];
  const unnamed = new UnnamedProxies({ warn: (facts: unknown) => void said.push(facts) });
  const trusted = new TrustedProxies([{ address: "127.0.0.0", prefixBits: 8 }]);
  const see = (peer: string, rawHeaders: readonly string[]): void =>
    unnamed.see(arriving({ rawHeaders, peer }), trusted);
  see("192.0.2.1", ["Host", "a"]);
  see("127.0.0.1", ["Host", "a", "X-Forwarded-For", "198.51.100.1"]);
  expect(said).toEqual([]);
  see("::ffff:192.0.2.1", ["Host", "a", "x-forwarded-for", "198.51.100.1"]);
  see("192.0.2.2", ["Host", "a", "X-Forwarded-For", "198.51.100.1"]);
  expect(said).toEqual([{ peer: "192.0.2.1" }]);
});
