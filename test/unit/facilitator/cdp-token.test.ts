/** Tokens for Coinbase's facilitator, beside those of its own SDK and as a verifier reads them. */
import { createPublicKey, generateKeyPairSync, verify, type KeyObject } from "node:crypto";
import { createRequire } from "node:module";
import { inspect } from "node:util";
import { describe, expect, test } from "vitest";
import { cdpToken } from "../../../src/facilitator/cdp-token.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { Metrics } from "../../../src/telemetry/metrics.ts";
import { faultOf } from "../../support/fault-of.ts";
import { soon, stage, success, type Stage } from "./remote-stage.ts";
import { exampleRequest } from "../payments/settlement/example-request.ts";

interface SdkOptions {
  readonly apiKeyId: string;
  readonly apiKeySecret: string;
  readonly requestMethod: string;
  readonly requestHost: string;
  readonly requestPath: string;
}

/** The SDK that the packages of version 1 bring along. */
const SDK: { generateJwt(options: SdkOptions): Promise<string> } = createRequire(
  import.meta.resolve("x402-express"),
)("@coinbase/cdp-sdk/auth");

const ED25519 = generateKeyPairSync("ed25519").privateKey;
const P256 = generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey;
const KEY_ID = "organizations/1/apiKeys/2";
const REQUEST = {
  method: "POST",
  host: "api.cdp.coinbase.com",
  path: "/platform/v2/x402/settle",
};

/** As the portal gives it. */
function secretOf(key: KeyObject): string {
  const { d = "", x = "" } = key.export({ format: "jwk" });
  const halves = [d, x].map((each) => Buffer.from(each, "base64url"));
  return key === ED25519
    ? Buffer.concat(halves).toString("base64")
    : key.export({ format: "pem", type: "pkcs8" }).toString();
}

function read(token: string) {
  const [header = "", claims = "", signature = ""] = token.split(".");
  const [head, said] = [header, claims].map((each) =>
    JSON.parse(Buffer.from(each, "base64url").toString()),
  );
  return { header: head, claims: said, signed: `${header}.${claims}`, signature };
}

function isSigned(token: string, key: KeyObject): boolean {
  const { signed, signature } = read(token);
  const digest = key === ED25519 ? null : "sha256";
  const publicKey = createPublicKey(key);
  const wanted = { key: publicKey, dsaEncoding: "ieee-p1363" } as const;
  return verify(digest, Buffer.from(signed), wanted, Buffer.from(signature, "base64url"));
}

function tokensOf({ scripted }: Stage): readonly string[] {
  return scripted.calls.map(({ headers }) => headers.authorization?.replace(/^Bearer /, "") ?? "");
}

describe.each([
  ["Ed25519", ED25519, "EdDSA"],
  ["ECDSA", P256, "ES256"],
])("a token by an %s key", (_, key, alg) => {
  test("is the SDK's, but for its nonce", async () => {
    const peer = await SDK.generateJwt({
      apiKeyId: KEY_ID,
      apiKeySecret: secretOf(key),
      requestMethod: REQUEST.method,
      requestHost: REQUEST.host,
      requestPath: REQUEST.path,
    });
    const theirs = read(peer);
    const token = cdpToken({ keyId: KEY_ID, key }, REQUEST, theirs.claims.iat * 1000 + 999);
    const ours = read(token);
    expect(ours.claims).toEqual(theirs.claims);
    const nonce = expect.stringMatching(/^[0-9a-f]{32}$/);
    expect(theirs.header).toEqual({ alg, kid: KEY_ID, typ: "JWT", nonce });
    expect(ours.header).toEqual({ ...theirs.header, nonce });
    expect(ours.claims).toMatchObject({
      uris: ["POST api.cdp.coinbase.com/platform/v2/x402/settle"],
      exp: ours.claims.nbf + 120,
    });
    for (const each of [peer, token]) expect(isSigned(each, key)).toBe(true);
    expect(isSigned(token, key === ED25519 ? P256 : ED25519)).toBe(false);
  });

  test("is another one for each request, and for that one only", async () => {
    const opened = await stage(
      { status: 200, body: { ...success, isValid: true, kinds: [] } },
      { path: "/platform/v2/x402", cdp: { keyId: KEY_ID, key } },
    );
    await opened.remote.verify(exampleRequest, soon());
    await opened.remote.settle(exampleRequest, { signal: soon() });
    await opened.remote.supported(soon());
    const { host } = new URL(opened.scripted.url);
    const tokens = tokensOf(opened);
    expect(tokens.every((token) => isSigned(token, key))).toBe(true);
    expect(tokens.map((token) => read(token).claims.uris)).toEqual([
      [`POST ${host}/platform/v2/x402/verify`],
      [`POST ${host}/platform/v2/x402/settle`],
      [`GET ${host}/platform/v2/x402/supported`],
    ]);
    expect(new Set(tokens.map((token) => read(token).header.nonce)).size).toBe(3);
  });

  test("is in no line of a log, and in no fault", async () => {
    const lines: string[] = [];
    const write = (line: string): void => void lines.push(line);
    const logger = createLogger({ level: "trace", format: "json", destination: { write } });
    const telemetry = { logger, metrics: new Metrics("test") };
    const opened = await stage({ status: 401 }, { cdp: { keyId: KEY_ID, key }, telemetry });
    const asked = [
      opened.remote.verify(exampleRequest, soon()),
      opened.remote.settle(exampleRequest, { signal: soon() }),
      opened.remote.supported(soon()),
    ];
    const faults = await Promise.all(asked.map((each) => faultOf(each)));
    for (const fault of faults) logger.error({ err: fault }, "a fault");
    const all = lines.join("") + inspect(faults, { depth: 9 }) + inspect(opened.remote);
    const tokens = tokensOf(opened);
    expect(lines.length).toBeGreaterThanOrEqual(faults.length);
    expect(tokens.every((token) => isSigned(token, key))).toBe(true);
    for (const token of tokens) expect(all).not.toContain(read(token).signature);
  });
});
