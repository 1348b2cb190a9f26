/** The extension as the official package signs and reads it, and as it is asked for and judged here. */
import {
  buildSIWxSchema,
  createSIWxMessage,
  createSIWxPayload,
  encodeSIWxHeader,
  parseSIWxHeader,
  SIGN_IN_WITH_X,
  validateSIWxMessage,
  verifySIWxSignature,
  type SIWxSigner,
} from "@x402/extensions/sign-in-with-x";
import { createHash } from "node:crypto";
import { Ajv2020 } from "ajv/dist/2020.js";
import { describe, expect, test } from "vitest";
import { ChainTextSigners } from "../../../src/mechanism/text-signers.ts";
import { isSignedBy, Keypair } from "../../../src/mechanism/solana/signing.ts";
import {
  decodeSignIn,
  SIGN_IN,
  SIGN_IN_HEADER,
  SignIns,
  supportedChains,
  type ChallengeInfo,
  type SignInAnswer,
  type SignInChallenge,
} from "../../../src/x402/sign-in.ts";
import { freshAccount } from "../../support/payer.ts";

const PUBLIC_URL = "https://shop.example:8443";
const RESOURCE = `${PUBLIC_URL}/weather?city=Oslo`;
const NETWORKS = ["base", "solana"] as const;
const KEY = Buffer.alloc(32, 7);
/** Some seconds ago by the official package's clock, which is the machine's; challenges have whole seconds. */
const NOW_MS = Math.floor(Date.now() / 1_000) * 1_000 - 5_000;

const signIns = new SignIns({ key: KEY, publicUrl: PUBLIC_URL });
const evm = freshAccount();
const solana = new Keypair(Buffer.alloc(32, 9));
const solanaSigner = {
  publicKey: solana.address,
  signMessage: async (message: Uint8Array) => solana.sign(message),
};
const signers = new ChainTextSigners(new Map(), isSignedBy);

const asked = (info: ChallengeInfo): SignInChallenge => {
  return { info, supportedChains: supportedChains(NETWORKS) };
};
const challenge = (): SignInChallenge => asked(signIns.challenge(NOW_MS, RESOURCE));

/** What the official client answers, as it arrives. */
async function answered(
  asked: SignInChallenge,
  signer: SIWxSigner = evm.account,
): Promise<SignInAnswer> {
  const chain = asked.supportedChains[signer === evm.account ? 0 : 1];
  if (chain === undefined) throw new Error("no such chain");
  const told = await createSIWxPayload({ ...asked.info, ...chain }, signer, RESOURCE);
  const header = encodeSIWxHeader(told);
  const read = decodeSignIn(header);
  if (!read.ok) throw new Error(read.error.detail);
  return read.value;
}

const judge = (told: SignInAnswer, nowMs = NOW_MS, on: readonly string[] = NETWORKS) =>
  signIns.judge(told, { resource: RESOURCE, networks: on }, nowMs);

/** The code of version 2 by which it is refused. */
function codeOf(told: SignInAnswer, nowMs = NOW_MS): string | undefined {
  const judged = judge(told, nowMs);
  return judged.ok ? undefined : judged.error.codeV2;
}

/** Of a series of 64, which are proven together. */
function proofOf(nonce: string, issuedAt: string): string {
  const text = `coinslot sign-in ${nonce.slice(0, 14)} ${issuedAt}`;
  const mac = createHash("shake256", { outputLength: 512 }).update(KEY).update(text).digest("hex");
  const at = Number.parseInt(nonce.slice(14, 16), 16) * 16;
  return mac.slice(at, at + 16);
}

describe("a challenge", () => {
  test("is what the official package takes for one of its own", async () => {
    expect(SIGN_IN).toBe(SIGN_IN_WITH_X);
    const { info, supportedChains } = challenge();
    expect(info).toMatchObject({
      domain: "shop.example:8443",
      uri: `${PUBLIC_URL}/weather`,
      version: "1",
      nonce: expect.stringMatching(/^[\da-f]{32}$/),
      issuedAt: new Date(NOW_MS).toISOString(),
      expirationTime: new Date(NOW_MS + 300_000).toISOString(),
    });
    expect(supportedChains).toEqual([
      { chainId: "eip155:8453", type: "eip191" },
      { chainId: "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp", type: "ed25519" },
    ]);
    const told = parseSIWxHeader(
      encodeSIWxHeader(
        await createSIWxPayload({ ...info, ...supportedChains[0]! }, evm.account, RESOURCE),
      ),
    );
    expect(
      new Ajv2020({ strict: false, validateFormats: false }).validate(buildSIWxSchema(), told),
    ).toBe(true);
    expect(await validateSIWxMessage(told, new URL(PUBLIC_URL))).toEqual({ isValid: true });
    expect(await verifySIWxSignature(told)).toMatchObject({ isValid: true, payer: evm.address });
  });

  test("is another one each time", () => {
    const nonces = Array.from({ length: 1_000 }, () => challenge().info.nonce);
    expect(new Set(nonces).size).toBe(1_000);
  });

  test("has a nonce that is proven by its part of a MAC of its time", () => {
    const fresh = new SignIns({ key: KEY, publicUrl: PUBLIC_URL });
    for (let count = 0; count < 66; count += 1) {
      const { nonce, issuedAt } = fresh.challenge(NOW_MS);
      expect(Number.parseInt(nonce.slice(14, 16), 16)).toBe(count % 64);
      expect(nonce.slice(16)).toBe(proofOf(nonce, issuedAt));
    }
  });

  test("becomes another one by the next nonce, which nobody else is given", () => {
    const fresh = new SignIns({ key: KEY, publicUrl: PUBLIC_URL });
    const nonces = Array.from({ length: 140 }, (_, count) => {
      if (count % 3 === 0) return fresh.challenge(NOW_MS).nonce;
      const { issuedAt, encoded } = fresh.nextNonce(NOW_MS);
      expect(issuedAt).toBe(fresh.challenge(NOW_MS).issuedAt);
      const [, nonce = ""] = /^([\da-f]{32})"$/.exec(atob(encoded)) ?? [];
      expect(nonce.slice(16)).toBe(proofOf(nonce, issuedAt));
      return nonce;
    });
    expect(new Set(nonces).size).toBe(140);
  });

  test("has the times of its own second, also where one series of nonces goes on in another", () => {
    const times = [0, 999, 1_000, 1_999].map((ms) => signIns.challenge(NOW_MS + ms));
    expect(times.map(({ issuedAt }) => Date.parse(issuedAt) - NOW_MS)).toEqual([
      0, 0, 1_000, 1_000,
    ]);
    expect(times.map(({ expirationTime }) => Date.parse(expirationTime) - NOW_MS)).toEqual([
      300_000, 300_000, 301_000, 301_000,
    ]);
    for (const { nonce, issuedAt } of times) {
      expect(nonce.slice(16)).toBe(proofOf(nonce, issuedAt));
    }
  });
});

describe("an answer", () => {
  test("of an EVM wallet may end with the parity in place of 27 or 28", async () => {
    const judged = judge(await answered(challenge(), evm.account));
    if (!judged.ok) throw new Error(judged.error.detail);
    const { message, network, address, signature } = judged.value;
    const isSigned = (byte: string) =>
      signers.hasKeySigned(network, { message, address, signature: signature.slice(0, -2) + byte });
    const [own, other] = signature.endsWith("1b") ? ["00", "01"] : ["01", "00"];
    expect([isSigned(own), isSigned(other), isSigned("02")]).toEqual([true, false, false]);
  });

  test.each([
    ["an EVM wallet", evm.account, evm.address],
    ["a Solana wallet", solanaSigner, solana.address],
  ])(
    "of %s is taken, and is signed as the official client writes it",
    async (_, signer, address) => {
      const asked = challenge();
      const told = await answered(asked, signer);
      const judged = judge(told);
      if (!judged.ok) throw new Error(judged.error.detail);
      const { message, network } = judged.value;
      const chain = asked.supportedChains.find(({ chainId }) => chainId === told.chainId);
      expect(message).toBe(createSIWxMessage({ ...asked.info, ...chain! }, address));
      expect(judged.value).toMatchObject({
        address,
        nonce: told.nonce,
        untilMs: NOW_MS + 300_000,
      });
      expect(signers.hasKeySigned(network, judged.value)).toBe(true);
      expect(signers.hasKeySigned(network, { ...judged.value, message: `${message} ` })).toBe(
        false,
      );
      const other =
        network === "base" ? freshAccount().address : new Keypair(Buffer.alloc(32, 3)).address;
      expect(signers.hasKeySigned(network, { ...judged.value, address: other })).toBe(false);
      for (const signature of ["", "0x", "0x00", "1", told.signature.slice(0, -2)]) {
        expect(signers.hasKeySigned(network, { ...judged.value, signature })).toBe(false);
      }
      expect(await signers.hasCodeSigned(network, judged.value, AbortSignal.timeout(1), "")).toBe(
        false,
      );
    },
  );

  test("to what is asked for all URLs is taken at each", async () => {
    const told = await answered(asked(signIns.challenge(NOW_MS)));
    expect(judge(told).ok).toBe(true);
    expect(
      signIns.judge(told, { resource: `${PUBLIC_URL}/other`, networks: NETWORKS }, NOW_MS).ok,
    ).toBe(true);
  });

  test("is refused for another domain, URL, nonce, time or chain, with the official code", async () => {
    const told = await answered(challenge());
    const { nonce } = challenge().info;
    const changes: readonly (readonly [Partial<SignInAnswer>, string])[] = [
      [{ domain: "shop.example" }, "domain_mismatch"],
      [{ domain: "SHOP.example:8443" }, "domain_mismatch"],
      [{ uri: `${PUBLIC_URL}/weathers` }, "uri_mismatch"],
      [{ uri: RESOURCE }, "uri_mismatch"],
      [{ uri: "http://shop.example:8443/weather" }, "uri_mismatch"],
      // Of another time, made up, in another spelling, cut, and with the proof of another one.
      [{ issuedAt: new Date(NOW_MS + 1).toISOString() }, "nonce"],
      [{ issuedAt: `${told.issuedAt} ` }, "nonce"],
      [{ issuedAt: new Date(NOW_MS).toUTCString() }, "nonce"],
      [{ nonce: "0".repeat(32) }, "nonce"],
      [{ nonce: told.nonce.toUpperCase().replace(/^\d*$/, "A") }, "nonce"],
      [{ nonce: told.nonce.slice(0, 16) }, "nonce"],
      [{ nonce: `${told.nonce}00` }, "nonce"],
      [{ nonce: told.nonce.slice(0, 16) + nonce.slice(16) }, "nonce"],
      [{ nonce: `${told.nonce.slice(0, 14)}40${told.nonce.slice(16)}` }, "nonce"],
      [{ chainId: "eip155:1" }, "unsupported_chain"],
      [{ chainId: "base" }, "unsupported_chain"],
      [{ chainId: "eip155:84532" }, "unsupported_chain"],
      [{ address: solana.address }, "malformed_signature"],
      [{ address: "0x12" }, "malformed_signature"],
      [{ chainId: "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp" }, "malformed_signature"],
    ];
    for (const [change, code] of changes) {
      const refused = codeOf({ ...told, ...change });
      expect({ change, refused }).toEqual({ change, refused: `invalid_siwx_${code}` });
    }
    expect(judge(told, NOW_MS, ["solana"]).ok).toBe(false);
  });

  test("is refused of a gateway whose key or URL is another", async () => {
    const other = new SignIns({ key: Buffer.alloc(32, 8), publicUrl: PUBLIC_URL });
    const told = await answered(asked(other.challenge(NOW_MS, RESOURCE)));
    expect(codeOf(told)).toBe("invalid_siwx_nonce");
    const elsewhere = new SignIns({ key: KEY, publicUrl: "https://other.example" });
    const place = { resource: RESOURCE, networks: NETWORKS };
    const refused = elsewhere.judge(await answered(challenge()), place, NOW_MS);
    expect(refused).toMatchObject({ ok: false, error: { codeV2: "invalid_siwx_domain_mismatch" } });
  });

  test("counts for five minutes, and not before its time", async () => {
    const told = await answered(challenge());
    expect(codeOf(told, NOW_MS)).toBeUndefined();
    expect(codeOf(told, NOW_MS + 299_999)).toBeUndefined();
    expect(codeOf(told, NOW_MS + 300_000)).toBe("invalid_siwx_expired");
    expect(codeOf(told, NOW_MS - 1)).toBe("invalid_siwx_issued_at_in_future");
  });

  test.each([
    ["what is no base64", "€"],
    ["what is no JSON", btoa("{")],
    ["too much", "A".repeat(30_000)],
    ["a list", btoa("[]")],
    ["members of other types", btoa(JSON.stringify({ domain: 1 }))],
    ["a signature that is too long", btoa(JSON.stringify({ signature: "x".repeat(9_000) }))],
    ["nothing", ""],
  ])("that is %s is refused", (_, header) => {
    expect(decodeSignIn(header)).toMatchObject({
      ok: false,
      error: { code: "invalid_payload", detail: expect.stringContaining(SIGN_IN_HEADER) },
    });
  });
});

test("a wallet that does not know the text gets it written, with its address as wallets check it", async () => {
  const wallet = { address: evm.address.toLowerCase(), network: "base" };
  expect(signIns.prepare({ ...wallet, network: "eip155:8453" }, NETWORKS, NOW_MS).ok).toBe(true);
  const prepared = signIns.prepare(wallet, NETWORKS, NOW_MS);
  if (!prepared.ok) throw new Error(prepared.error.detail);
  const { answer, message, hex } = prepared.value;
  expect(Buffer.from(hex.slice(2), "hex").toString()).toBe(message);
  expect(answer).toMatchObject({ address: evm.address, chainId: "eip155:8453", type: "eip191" });
  const signature = await evm.account.signMessage({ message });
  const judged = judge({ ...answer, signature });
  expect(judged).toMatchObject({ ok: true, value: { message, address: evm.address } });
  for (const change of [{ address: "0x12" }, { network: "eip155:1" }, { network: "solana" }]) {
    expect(signIns.prepare({ ...wallet, ...change }, NETWORKS, NOW_MS).ok).toBe(false);
  }
});
