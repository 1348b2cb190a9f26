/** API keys of Coinbase's platform, as its portal writes them and as they are kept. */
import {
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
} from "node:crypto";
import { inspect } from "node:util";
import { describe, expect, test } from "vitest";
import { formatProblems, parseConfig } from "../../../../src/config/config.ts";
import { GATEWAY, ROUTES } from "../fixture.ts";

const ED25519 = generateKeyPairSync("ed25519").privateKey;
const P256 = generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey;
const P384 = generateKeyPairSync("ec", { namedCurve: "P-384" }).privateKey;
const RSA = generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey;

const pem = (key: KeyObject, type: "pkcs8" | "sec1" | "pkcs1" = "pkcs8") =>
  key.export({ format: "pem", type }).toString();

const halves = ["d", "x"].map((name) => {
  const jwk: Readonly<Record<string, unknown>> = { ...ED25519.export({ format: "jwk" }) };
  return Buffer.from(String(jwk[name]), "base64url");
});
const BASE64 = Buffer.concat(halves).toString("base64");

function read(secret: string, auth = "{ cdp: { keyId: an-id, keySecret: env:CDP_SECRET } }") {
  const block = `facilitator:\n  remote: [{ url: https://cdp.example.com, auth: ${auth} }]`;
  const text = GATEWAY.replace(/^facilitator:.*$/m, block) + ROUTES;
  const files: Readonly<Record<string, string>> = { "/run/secrets/cdp": `${secret}\n` };
  return parseConfig(text, {
    file: "/etc/coinslot/gateway.yaml",
    env: { CDP_SECRET: secret },
    readFile: (path) => files[path] ?? expect.fail(path),
  });
}

const publicOf = (key: KeyObject) => createPublicKey(key).export({ format: "jwk" });

describe("an API key", () => {
  test.each<[string, string, KeyObject]>([
    ["Ed25519 in base64", BASE64, ED25519],
    ["Ed25519 in PEM", pem(ED25519), ED25519],
    ["ECDSA in PEM", pem(P256), P256],
    ["ECDSA in the older PEM", pem(P256, "sec1"), P256],
    ["ECDSA on one line", pem(P256, "sec1").replaceAll("\n", "\\n"), P256],
  ])("of %s is kept secret, from a variable or a file", (_, secret, key) => {
    const fromFile = "{ cdp: { keyId: an-id, keySecret: file:/run/secrets/cdp } }";
    for (const result of [read(secret), read(secret, fromFile)]) {
      if (!result.ok) throw new Error(formatProblems(result.problems, result.text));
      const { remote } = result.config.facilitator;
      const { cdp } = remote[0] ?? {};
      expect(cdp?.keyId).toBe("an-id");
      const kept = cdp?.key.reveal() ?? "";
      expect(publicOf(createPrivateKey(kept))).toEqual(publicOf(key));
      expect(JSON.stringify(remote) + inspect(remote, { depth: 9 })).not.toContain("PRIVATE KEY");
    }
  });

  test.each([
    ["another curve", pem(P384)],
    ["RSA", pem(RSA)],
    ["a public key", createPublicKey(P256).export({ format: "pem", type: "spki" }).toString()],
    ["half a key", halves[0]?.toString("base64") ?? ""],
    ["no key", "MALFORMED-SECRET"],
    ["two halves of two keys", Buffer.alloc(64, 7).toString("base64")],
    ["a file of the portal", JSON.stringify({ id: "an-id", privateKey: BASE64 })],
  ])("of %s is refused, and never shown", (_, secret) => {
    const result = read(secret);
    expect(result.ok).toBe(false);
    const errors = result.problems.filter(({ severity }) => severity === "error");
    expect(errors).toMatchObject([{ code: "malformed-key" }]);
    const report = formatProblems(result.problems, result.text);
    expect(report).toContain("keySecret");
    for (const line of secret.split("\n").filter((each) => each.length > 8)) {
      expect(report).not.toContain(line);
    }
  });

  test("that stands in the file itself is refused, and never shown", () => {
    const result = read("", `{ cdp: { keyId: an-id, keySecret: "${BASE64}" } }`);
    expect(result.ok).toBe(false);
    expect(formatProblems(result.problems, result.text) + result.text).not.toContain(BASE64);
  });
});
