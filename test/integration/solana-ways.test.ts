/** The ways to sell with a wallet on Solana, from its first purchase to what is paid back: packs, meters, passes, members. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { start } from "../../src/app.ts";
import { drain, listen } from "../../src/gateway/listener/listener.ts";
import type { Keypair } from "../../src/mechanism/solana/signing.ts";
import { encodeBase58 } from "../../src/x402/solana-address.ts";
import { SESSION_HEADER } from "../../src/x402/session.ts";
import { SIGN_IN_HEADER, SIGN_IN_PATH } from "../../src/x402/sign-in.ts";
import { challengeOf, showSignIn, signChallenge } from "../support/sign-in.ts";
import { testKey } from "../support/solana-messages.ts";
import { secretOf } from "../support/solana-requests.ts";
import { BUYER, SOLANA_ENV, SolanaStage } from "../support/solana-stage.ts";
import { USDC_DEVNET } from "../support/solana/set-up.ts";
import { configOf } from "../unit/app/config-of.ts";
import { runHere } from "./cli/run-here.ts";

const STAFF = testKey(8);
const STRANGER = testKey(9);
const REFUND_KEY = 5;
const ENV = {
  ...SOLANA_ENV,
  REFUNDER: encodeBase58(Buffer.from(secretOf(REFUND_KEY), "hex")),
};
const POLL = { timeout: 40_000 };
/** What the pack costs, and what a metered payment is at first, atomic units. */
const PACK = 50_000n;
const MAX = 10_000n;

const closing = new AsyncDisposableStack();
let stage: SolanaStage;
let url: string;
let file: string;
let asked = 0;

beforeAll(async () => {
  stage = closing.use(await SolanaStage.open());
  const owner = testKey(REFUND_KEY).address;
  await stage.node.fundToken({ mint: USDC_DEVNET, owner, amount: 1_000_000n });
  const backend = createServer((request, response) => {
    asked += 1;
    const { searchParams } = new URL(request.url ?? "", "http://backend");
    response.setHeader("X-Usage", searchParams.get("n") ?? "").end("sunny");
  });
  const { port } = await listen(backend, { host: "127.0.0.1", port: 0 });
  closing.defer(() => drain(backend, AbortSignal.abort()));
  const upstreamUrl = `http://127.0.0.1:${port}`;
  const folder = await mkdtemp(join(tmpdir(), "coinslot-solana-"));
  closing.defer(() => rm(folder, { recursive: true, force: true }));
  const routes = `  GET /prepaid: { price: $0.001, credits: true, description: Prepaid }
  GET /metered: { meter: { of: header(X-Usage), each: $0.000001, max: $0.01 }, credits: true, description: Metered }
  GET /paper/*: { price: $0.02, description: Paper }
  GET /club: { price: $0.02, prices: { staff: free }, description: Club }
  GET /tried: { price: $0.02, free: 2/d by payer, description: Tried }
`;
  const more = `members: { staff: [${STAFF.address}] }
credits: { packs: [$0.05] }
passes: { day: { price: $0.04, routes: [GET /paper/*], for: 24h, times: 2, description: Two papers } }
refunds: { signer: { solana: env:REFUNDER }, maxPerDay: $5 }`;
  const own = `listen: 127.0.0.1:0
publicUrl: http://localhost:8402
logging: { level: fatal }
store: sqlite:${join(folder, "ledger.db")}
`;
  const text = own + stage.yaml(undefined, { upstreamUrl, routes, more });
  file = join(folder, "gateway.yaml");
  await writeFile(file, text);
  const running = await start(configOf(text, ENV), "test");
  closing.defer(() => running.close());
  url = `http://127.0.0.1:${running.addresses.gateway[0]?.port}`;
});

afterAll(() => closing.disposeAsync());

const signerOf = (key: Keypair) => ({
  publicKey: key.address,
  signMessage: async (message: Uint8Array) => key.sign(message),
});

const sessions = new Map<Keypair, Promise<string>>();

/** One of each: sign-ins are limited. */
function sessionOf(key: Keypair): Promise<string> {
  const known = sessions.get(key) ?? openSession(key);
  sessions.set(key, known);
  return known;
}

async function openSession(key: Keypair): Promise<string> {
  const place = url + SIGN_IN_PATH;
  const challenge = Object(await (await fetch(place)).json());
  const header = await signChallenge(challenge, signerOf(key));
  const answer = await fetch(place, { method: "POST", headers: { [SIGN_IN_HEADER]: header } });
  return String(Object(await answer.json()).session);
}

async function ask(path: string, key: Keypair) {
  const answer = await fetch(url + path, { headers: { [SESSION_HEADER]: await sessionOf(key) } });
  return { status: answer.status, text: await answer.text(), headers: answer.headers };
}

async function creditsOf(key: Keypair): Promise<unknown> {
  return Object(JSON.parse((await ask("/.x402/balance", key)).text)).credits;
}

async function pay(path: string) {
  return stage.present(url + path, stage.pay(await stage.quote(url + path)));
}

const balance = (amount: bigint) => [
  expect.objectContaining({ family: "solana-testnet", token: "USDC", amount: String(amount) }),
];

describe("a balance", () => {
  it("is bought, spent by a session, by use as well, and the rest is sent back once", async () => {
    expect(await pay("/.x402/credits/0.05")).toMatchObject({ status: 200 });
    expect((await stage.moved()).paid).toBe(PACK);
    expect(await creditsOf(BUYER)).toEqual(balance(PACK));

    const fixed = await ask("/prepaid", BUYER);
    expect([fixed.status, fixed.text, fixed.headers.get("x-402-charged")]).toEqual([
      200,
      "sunny",
      "0.001 USDC",
    ]);
    const used = await ask("/metered?n=300", BUYER);
    expect([used.status, used.text]).toEqual([200, "sunny"]);
    await expect.poll(() => creditsOf(BUYER), POLL).toEqual(balance(PACK - 1_000n - 300n));

    // What a payment by use leaves is there as well.
    expect(await pay("/metered?n=400")).toMatchObject({ status: 200, text: "sunny" });
    const left = PACK - 1_000n - 300n + MAX - 400n;
    await expect.poll(() => creditsOf(BUYER), POLL).toEqual(balance(left));
    expect((await stage.moved()).paid).toBe(PACK + MAX);

    // Nobody else spends it.
    const before = asked;
    expect((await ask("/prepaid", STAFF)).status).toBe(402);
    expect(asked).toBe(before);

    const { spent } = await stage.moved();
    // What a process has in its hands is waited for: of a payment that was paid back in part the rest could not be.
    const refund = await runHere(["payments", file, "--refund-credits", BUYER.address], ENV);
    expect(refund).toMatchObject({ code: 0, stderr: "" });
    expect(await creditsOf(BUYER)).toEqual(balance(0n));
    await expect.poll(async () => spent - (await stage.moved()).spent, POLL).toBe(left);
  });
});

describe("a pass", () => {
  it("opens what it is for so many times, to who has bought it and nobody else", async () => {
    expect(await pay("/.x402/passes/day")).toMatchObject({ status: 200 });
    const before = asked;
    expect((await ask("/paper/1", BUYER)).status).toBe(200);
    expect((await ask("/paper/1", STRANGER)).status).toBe(402);
    expect((await ask("/paper/2", BUYER)).status).toBe(200);
    expect((await ask("/paper/3", BUYER)).status).toBe(402);
    expect(asked - before).toBe(2);
  });
});

describe("who signs in with a wallet", () => {
  it("has for nothing what is a member's, and others pay", async () => {
    expect((await ask("/club", STAFF)).status).toBe(200);
    const header = await signChallenge(await challengeOf(`${url}/club`), signerOf(STRANGER));
    expect((await showSignIn(`${url}/club`, header)).status).toBe(402);
    // Nor in a member's name.
    const forged = await signChallenge(
      await challengeOf(`${url}/club`),
      signerOf(STRANGER),
      (told) => ({ ...told, address: STAFF.address }),
    );
    expect((await showSignIn(`${url}/club`, forged)).status).toBe(402);
  });

  it("has as many for nothing as the file says, in whatever session", async () => {
    const shown = [];
    for (let count = 0; count < 3; count += 1) {
      const header = await signChallenge(await challengeOf(`${url}/tried`), signerOf(BUYER));
      shown.push((await showSignIn(`${url}/tried`, header)).status);
    }
    expect(shown).toEqual([200, 200, 402]);
  });
});
