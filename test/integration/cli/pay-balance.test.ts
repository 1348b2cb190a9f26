/** `coinslot pay --balance`: what a key has prepaid at a seller, who may mean harm. */
import { createServer, type RequestListener, type Server } from "node:http";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { drain, listen } from "../../../src/gateway/listener/listener.ts";
import { isSignedBy, Keypair } from "../../../src/mechanism/solana/signing.ts";
import { ChainTextSigners } from "../../../src/mechanism/text-signers.ts";
import { decodeBase58 } from "../../../src/x402/solana-address.ts";
import { decodeSignIn, SignIns, supportedChains } from "../../../src/x402/sign-in.ts";
import { freshAccount } from "../../support/payer.ts";
import { runHere } from "./run-here.ts";

const buyer = freshAccount();
const env = { COINSLOT_KEY: buyer.privateKey };
const CREDITS = [{ family: "evm", token: "USDC", amount: "4990000", decimals: 6, dollars: "4.99" }];

describe("--balance", () => {
  let seller: Server;
  let origin: string;
  let issuer: SignIns;
  let told: object;
  /** Of the challenge, or of all that is answered. */
  let change: (body: object) => unknown;
  let asked: string[];
  const networks = ["base", "solana"];
  const signers = new ChainTextSigners(new Map(), isSignedBy);

  const answer: RequestListener = (request, response) => {
    const path = request.url ?? "";
    const say = (status: number, body: unknown): void =>
      void response
        .writeHead(status, { "Content-Type": "application/json" })
        .end(JSON.stringify(body));
    asked.push(`${request.method} ${path}`);
    if (path === "/.well-known/x402/sign-in") {
      const info = issuer.challenge(Date.now());
      return say(200, change({ info, supportedChains: supportedChains(networks) }));
    }
    if (path !== "/.x402/balance") return say(404, { error: "not found" });
    const shown = decodeSignIn(String(request.headers["sign-in-with-x"]));
    if (!shown.ok) return say(401, { error: shown.error.detail });
    const where = { resource: `${origin}/.x402/balance`, networks };
    const judged = issuer.judge(shown.value, where, Date.now());
    const isHis = judged.ok && signers.hasKeySigned(judged.value.network, judged.value);
    if (!isHis) return say(403, { error: "it is not his" });
    return say(200, { payer: judged.value.address, ...told });
  };

  beforeAll(async () => {
    seller = createServer(answer);
    const { port } = await listen(seller, { host: "127.0.0.1", port: 0 });
    origin = `http://127.0.0.1:${port}`;
    issuer = new SignIns({ key: new Uint8Array(32), publicUrl: origin });
  });
  afterAll(() => drain(seller, AbortSignal.timeout(1_000)));
  beforeEach(() => {
    asked = [];
    change = (same) => same;
    told = { credits: CREDITS, buy: `${origin}/.x402/credits` };
  });

  const balance = (...words: readonly string[]) =>
    runHere(["pay", "--balance", `${origin}/anything?x=1`, ...words], env);

  test("prints what is left in dollars, for who has signed in", async () => {
    expect(await balance()).toEqual({
      code: 0,
      stdout: "$4.99  USDC on evm\n",
      stderr: `more is bought at ${origin}/.x402/credits\n`,
    });
    expect(asked).toEqual(["GET /.well-known/x402/sign-in", "GET /.x402/balance"]);
  });

  test("as JSON, for a key on Solana, and where nothing is left", async () => {
    const { stdout } = await balance("--json");
    expect(JSON.parse(stdout)).toEqual({
      payer: buyer.address,
      credits: [{ family: "evm", token: "USDC", dollars: "4.99" }],
      buy: `${origin}/.x402/credits`,
    });
    told = { credits: [], buy: null };
    const seed = Buffer.alloc(32, 7);
    const { address } = new Keypair(seed);
    const whole = [...seed, ...(decodeBase58(address, 32) ?? [])];
    const key = { COINSLOT_KEY: JSON.stringify(whole) };
    const solana = await runHere(["pay", "--balance", origin], key);
    expect(solana).toEqual({ code: 0, stdout: "$0\n", stderr: "" });
  });

  test.each([
    ["another place's", { domain: "bank.example.com" }, /asks to sign in at bank\.example\.com/],
    ["a URL's elsewhere", { uri: "https://bank.example.com/x" }, /asks to sign in at/],
    ["one of several lines", { statement: "a\n\nURI: https://bank.example.com" }, /cannot be read/],
    ["one that is too long", { nonce: "a".repeat(600) }, /cannot be read/],
    ["none", { nonce: 7 }, /cannot be read/],
  ])("signs nothing where the challenge is %s", async (_name, more, said) => {
    change = (body) => ({ ...body, info: { ...Object(body).info, ...more } });
    const { code, stdout, stderr } = await balance();
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
    expect(stderr).toMatch(said);
    expect(asked).toEqual(["GET /.well-known/x402/sign-in"]);
  });

  test("says so where there is no key, no network for it, or nothing that can be read", async () => {
    const none = await runHere(["pay", "--balance", origin], { COINSLOT_KEY: "" });
    expect(none.code).not.toBe(0);
    expect(await balance("--network", "polygon")).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/knows no accounts on a network that this key is for/),
    });
    told = { credits: [{ dollars: "1e9" }] };
    expect(await balance()).toMatchObject({ code: 1, stderr: expect.stringMatching(/no balance/) });
    told = { credits: [{ ...CREDITS[0], token: "\u001b[31mUSDC" }], buy: "\u001b[2J" };
    const { stdout, stderr } = await balance();
    expect(stdout + stderr).not.toContain("\u001b");
    expect((await balance("--credits")).code).toBe(2);
  });
});
