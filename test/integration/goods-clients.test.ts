/** The official clients behind redirects, with wrong input, and cut in the middle of downloads (`npm run prove:goods`). */
import type { RequestListener } from "node:http";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { wrapFetchWithSIWx } from "@x402/extensions/sign-in-with-x";
import { SIGN_IN_HEADER } from "../../src/x402/sign-in.ts";
import { headerJson, present, PURSE, richBuyer, sign } from "../support/buyer.ts";
import { startChain, type Chain } from "../support/chain.ts";
import { evmClients } from "../support/evm-clients.ts";
import { PUBLIC_URL, startGateway, type RunningGateway } from "../support/gateway.ts";
import { freshAccount, type FreshAccount } from "../support/payer.ts";
import {
  challengeOf,
  fetchAsPublic,
  returningBuyer,
  showSignIn,
  signChallenge,
} from "../support/sign-in.ts";
import { GoodsStage, randomCut, REDIRECTS } from "../goods/cuts.ts";
import { DOWNLOAD_CLIENTS } from "../goods/download-clients.ts";
import { missing } from "../proxy/upload-clients.ts";

/** Of each client, in the suite. */
const CUTS = 4;
const MAX_BYTES = 2 * 1024 ** 2;
const PRICE = 10_000n;

const ROUTES = `
  GET /docs/*: { price: $0.01, description: The goods, repeat: { for: 5m, times: 3 } }
  GET /to-cheap: { price: $0.01, description: Leads to what costs less }
  GET /cheap: { price: $0.005, description: Costs less }
  GET /to-dear: { price: $0.01, description: Leads to what costs more }
  GET /dear: { price: $0.02, description: Costs more }
  GET /to-elsewhere: { price: $0.01, description: Leads to another host }
  GET /followed: { price: $0.01, description: Is followed here, redirects: follow }
  GET /elsewhere: free
  GET /q/city: { price: $0.01, description: Q, input: { queryParams: { city: { type: string, required: true } } } }
  GET /q/days: { price: $0.01, description: Q, input: { queryParams: { days: { type: integer, required: true } } } }
  GET /q/unit: { price: $0.01, description: Q, input: { queryParams: { unit: { enum: [c, f], required: true } } } }
  GET /q/zip: { price: $0.01, description: Q, input: { queryParams: { zip: { type: string, pattern: "^[0-9]{4}$", required: true } } } }
  GET /q/raw: { price: $0.01, description: Q, input: { queryParams: { raw: { type: boolean, required: true } } } }
  GET /q/size: { price: $0.01, description: Q, input: { queryParams: { size: { type: number, minimum: 1, maximum: 9, required: true } } } }
  GET /q/region: { price: $0.01, description: Q, input: { headerFields: { X-Region: { type: string, minLength: 2, required: true } } } }
  GET /cities/:city/now: { price: $0.01, description: Q, input: { pathParams: { city: { type: string, maxLength: 8 } } } }
  POST /b/text: { price: $0.01, description: B, input: { bodyType: json, bodyFields: { text: { type: string, minLength: 3, required: true } } } }
  POST /b/list: { price: $0.01, description: B, input: { bodyType: json, bodyFields: { ids: { type: array, items: { type: integer }, minItems: 1, required: true } } } }
`;

/** Ten requests of each declared route that do not fit: what follows the path, or the body. */
const queries = (name: string, values: readonly string[]): readonly string[] => [
  "",
  `?${name}`,
  `?${name}=`,
  `?${name.toUpperCase()}=1`,
  ...values.map((value) => `?${name}=${value}`),
];
const UNFIT: readonly (readonly [path: string, inputs: readonly string[]])[] = [
  [
    "/q/city",
    [
      ...queries("city", []),
      "?citi=oslo",
      "?city=&x=1",
      "?x=city",
      "?%63ity=",
      "?=city",
      "?a=city%3Doslo",
    ],
  ],
  ["/q/days", queries("days", ["abc", "1.5", "ten", "1,2", "true", "--1"])],
  ["/q/unit", queries("unit", ["C", "k", "cf", "c&unit=x", "%20c", "0"])],
  ["/q/zip", queries("zip", ["123", "12345", "abcd", "12%203", "1234%20", "-123"])],
  ["/q/raw", queries("raw", ["yes", "no", "2", "TRUE", "null", "on"])],
  ["/q/size", queries("size", ["0", "10", "-1", "abc", "9.5", "1e9"])],
  ["/q/region", ["", "?X-Region=eu", "?x=1", "?region=eu", "?a", "?b", "?c", "?d", "?e", "?f"]],
  [
    "/cities/:city/now",
    [
      ":city",
      "%3Acity",
      "*",
      "%2A",
      "%7Bcity%7D",
      "much-too-long",
      "123456789",
      "reykjavik",
      "montevideo",
      "ouagadougou",
    ],
  ],
  [
    "/b/text",
    [
      "",
      "{",
      "[]",
      "{}",
      "null",
      '{"text":""}',
      '{"text":"ab"}',
      '{"text":1}',
      '{"text":null}',
      '{"TEXT":"abc"}',
    ],
  ],
  [
    "/b/list",
    [
      "",
      "]",
      "1",
      "{}",
      '"ids"',
      '{"ids":[]}',
      '{"ids":["a"]}',
      '{"ids":{}}',
      '{"ids":[1.5]}',
      '{"ids":null}',
    ],
  ],
];

/** Larger than what is kept. */
const LARGE = "x".repeat(100_000);
let hasFailed = false;

const serve: RequestListener = ({ url = "", headers }, response) => {
  const leads: Readonly<Record<string, string>> = {
    "/docs/a": "/docs/a/",
    "/to-cheap": "/cheap",
    "/to-dear": "/dear",
    "/to-elsewhere": `http://localhost:${headers.host?.split(":")[1] ?? ""}/elsewhere`,
    "/followed": "/docs/b",
  };
  const location = leads[url];
  const lines = { "Content-Type": "application/json" };
  const isFailing = url === "/docs/fails-first" && !hasFailed;
  if (isFailing) {
    hasFailed = true;
    response.writeHead(500).end();
  } else if (url === "/docs/large") response.end(LARGE);
  else if (location === undefined) response.writeHead(200, lines).end(JSON.stringify({ url }));
  else response.writeHead(302, { Location: location }).end();
};

let chain: Chain;
let gateway: RunningGateway;

beforeAll(async () => {
  chain = await startChain();
  gateway = await startGateway({ chain, routes: ROUTES, backend: serve });
});

afterAll(async () => {
  await gateway[Symbol.asyncDispose]();
  await chain.stop();
});

describe.each(Object.entries(evmClients))("%s", (_, { buy }) => {
  it.each([
    ["the same path with a slash", "/docs/a", "/docs/a/"],
    ["another path that costs less", "/to-cheap", "/cheap"],
    ["a path that the gateway follows to", "/followed", "/docs/b"],
  ])("gets the goods behind a redirect to %s, for one charge", async (_name, path, goods) => {
    const buyer = await richBuyer(chain);
    const { status, body, receipt } = await buy(`${gateway.url}${path}`, buyer);
    expect({ status, body }).toEqual({ status: 200, body: { url: goods } });
    expect(receipt).toMatchObject({ success: true });
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - PRICE);
  });

  it("is not charged twice behind one to what costs more, which it does not get", async () => {
    const buyer = await richBuyer(chain);
    // Some clients throw, others give the 402.
    await buy(`${gateway.url}/to-dear`, buyer).catch(() => undefined);
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - PRICE);
    expect(gateway.upstream.some(({ url }) => url === "/dear")).toBe(false);
  });

  it("gets what another host has behind one, for one charge", async () => {
    const buyer = await richBuyer(chain);
    // Its receipt stays with the redirect, which these clients do not show.
    await buy(`${gateway.url}/to-elsewhere`, buyer).catch(() => undefined);
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - PRICE);
    expect(gateway.upstream.at(-1)?.url).toBe("/elsewhere");
  });
});

it("a hundred requests that do not fit what ten routes declare are charged nothing", async () => {
  const buyer = await richBuyer(chain);
  const before = gateway.upstream.length;
  let asked = 0;
  for (const [path, inputs] of UNFIT) {
    expect(inputs, path).toHaveLength(10);
    for (const input of inputs) {
      const isBody = path.startsWith("/b/");
      const target = path.includes(":")
        ? path.replace(":city", input)
        : isBody
          ? path
          : path + input;
      const url = `${gateway.url}${target}`;
      const init = isBody
        ? { method: "POST", body: input, headers: { "Content-Type": "application/json" } }
        : {};
      const header = await sign(buyer, url, { init });
      const headers = { ...Object(init).headers, "X-PAYMENT": header };
      const answer = await fetch(url, { ...init, headers });
      const { error, faults } = Object(await answer.json());
      expect({ target, input, status: answer.status }).toEqual({ target, input, status: 400 });
      expect(error).toContain("no payment was taken for this request");
      expect(faults.length).toBeGreaterThan(0);
      asked += 1;
    }
  }
  expect(asked).toBe(100);
  expect(gateway.upstream.length).toBe(before);
  expect(await chain.balanceOf(buyer.address)).toBe(PURSE);
});

const downloading = await Promise.all(
  DOWNLOAD_CLIENTS.map(async (client) => ({ client, lacks: await missing(client) })),
);

describe("what was bought is complete at last, and charged once:", () => {
  let stage: GoodsStage;
  beforeAll(async () => {
    stage = await GoodsStage.open(chain);
  });
  afterAll(() => stage[Symbol.asyncDispose]());
  for (const { client, lacks } of downloading) {
    const name = `${client.name} (${lacks ?? "installed"})`;
    it.skipIf(lacks !== null)(`a download that is cut, by ${name}`, async () => {
      for (let seed = 1; seed <= CUTS; seed += 1) {
        const result = await stage.cut(client, randomCut(seed, MAX_BYTES));
        expect(result).toMatchObject({ isComplete: true, charges: 1, isCut: true });
      }
    });
    it.skipIf(lacks !== null)(`a small answer whose connection is reset, by ${name}`, async () => {
      for (const isClosedHere of [true, false]) {
        const cut = { bytes: 50_000, at: 20_000, isReset: true, isClosedHere };
        const result = await stage.cut(client, cut);
        expect(result).toMatchObject({ isComplete: true, charges: 1, isCut: true });
      }
    });
    it.skipIf(lacks !== null).each(REDIRECTS)(
      `a file behind a redirect (%s), by ${name}`,
      async (kind) => {
        for (let count = 0; count < 5; count += 1) {
          const outcome = await stage.redirected(client, kind, count);
          expect(outcome).toEqual({ isComplete: true, charges: 1 });
        }
      },
    );
  }
});

describe("who has paid before signs in, and", () => {
  const charged = async (buyer: FreshAccount): Promise<bigint> =>
    PURSE - (await chain.balanceOf(buyer.address));
  const goods = (path: string): string => JSON.stringify({ url: path });

  it("comes back with the official client: pays once, while another wallet pays itself", async () => {
    const [buyer, other] = [await richBuyer(chain), await richBuyer(chain)];
    const path = "/docs/again";
    const served = () => gateway.upstream.filter(({ url }) => url === path).length;
    const [buy, buyElsewhere] = [
      returningBuyer(gateway.url, buyer),
      returningBuyer(gateway.url, other),
    ];
    expect(await (await buy(path)).text()).toBe(goods(path));
    const back = await buy(path);
    expect({ status: back.status, text: await back.text() }).toEqual({
      status: 200,
      text: goods(path),
    });
    expect(headerJson(back.headers, "PAYMENT-RESPONSE")).toMatchObject({
      success: true,
      payer: buyer.address,
    });
    expect(back.headers.get("vary")).toContain(SIGN_IN_HEADER);
    expect([await charged(buyer), served()]).toEqual([PRICE, 1]);
    expect((await buyElsewhere(path)).status).toBe(200);
    expect([await charged(buyer), await charged(other), served()]).toEqual([PRICE, PRICE, 2]);
    // By the client that does nothing but sign in, too.
    const signing = wrapFetchWithSIWx(fetchAsPublic(gateway.url), buyer.account);
    const again = await signing(`${PUBLIC_URL}${path}`);
    expect({ status: again.status, text: await again.text() }).toEqual({
      status: 200,
      text: goods(path),
    });
    expect((await signing(`${PUBLIC_URL}/docs/other`)).status).toBe(402);
    expect([await charged(buyer), served()]).toEqual([PRICE, 2]);
    const seen = gateway.upstream.flatMap(({ headers }) => Object.keys(headers));
    expect(seen).not.toContain(SIGN_IN_HEADER.toLowerCase());
  });

  it("gets nothing by a sign-in that is another's, another one, or used", async () => {
    const buyer = await richBuyer(chain);
    const url = `${gateway.url}/docs/refused`;
    const { body } = await evmClients["@x402/fetch 2.27.0 with version 2"]!.buy(url, buyer);
    expect(body).toEqual({ url: "/docs/refused" });
    const before = gateway.upstream.length;
    const { account } = buyer;
    const show = async (header: string, at = url): Promise<string> => {
      const { status, said } = await showSignIn(at, header);
      expect(status).toBe(402);
      return String(said.error).split(":")[0] ?? "";
    };
    const changed = async (change: Parameters<typeof signChallenge>[2]): Promise<string> =>
      show(await signChallenge(await challengeOf(url), account, change));
    const stranger = freshAccount();
    const asStranger = await signChallenge(await challengeOf(url), stranger.account);
    expect(await show(asStranger)).toBe("invalid_siwx_no_purchase");
    expect(
      await show(
        await signChallenge(await challengeOf(url), stranger.account, (told) => ({
          ...told,
          address: buyer.address,
        })),
      ),
    ).toBe("invalid_siwx_signature");
    expect(await changed((told) => ({ ...told, domain: "evil.example" }))).toBe(
      "invalid_siwx_domain_mismatch",
    );
    expect(await changed((told) => ({ ...told, uri: `${PUBLIC_URL}/docs/other` }))).toBe(
      "invalid_siwx_uri_mismatch",
    );
    expect(await changed((told) => ({ ...told, nonce: "ab".repeat(16) }))).toBe(
      "invalid_siwx_nonce",
    );
    expect(await changed((told) => ({ ...told, issuedAt: new Date().toISOString() }))).toBe(
      "invalid_siwx_nonce",
    );
    expect(await changed((told) => ({ ...told, chainId: "eip155:1" }))).toBe(
      "invalid_siwx_unsupported_chain",
    );
    // What is signed beside our text is not our text.
    for (const more of [
      { statement: "Yes" },
      { resources: ["https://evil.example"] },
      { requestId: "1" },
      { notBefore: "2020-01-01T00:00:00.000Z" },
    ]) {
      const { info, supportedChains } = await challengeOf(url);
      expect(
        await show(await signChallenge({ info: { ...info, ...more }, supportedChains }, account)),
      ).toBe("invalid_siwx_signature");
    }
    const elsewhere = await challengeOf(`${gateway.url}/docs/unbought`);
    expect(await show(await signChallenge(elsewhere, account))).toBe("invalid_siwx_uri_mismatch");
    expect(
      await show(await signChallenge(elsewhere, account), `${gateway.url}/docs/unbought`),
    ).toBe("invalid_siwx_no_purchase");
    expect(await show("{}")).toBe("invalid_payload");
    expect(await show(btoa("{}"))).toBe("invalid_payload");
    const good = await signChallenge(await challengeOf(url), account);
    expect(await showSignIn(url, good)).toMatchObject({
      status: 200,
      text: goods("/docs/refused"),
    });
    expect(await show(good)).toBe("invalid_siwx_nonce");
    expect(gateway.upstream.length).toBe(before);
    expect(await charged(buyer)).toBe(PRICE);
  });

  it("gets what is paid and was not delivered, where nobody has it", async () => {
    const buyer = await richBuyer(chain);
    const url = `${gateway.url}/docs/fails-first`;
    const header = await sign(buyer, url);
    expect((await present(url, header)).status).toBe(500);
    const signedIn = await showSignIn(
      url,
      await signChallenge(await challengeOf(url), buyer.account),
    );
    expect(signedIn).toMatchObject({ status: 200, text: goods("/docs/fails-first") });
    expect(signedIn.said.receipt).toMatchObject({ success: true, payer: buyer.address });
    expect(gateway.upstream.at(-1)?.headers["x-402-payer"]).toBe(buyer.address);
    expect(await charged(buyer)).toBe(PRICE);
  });

  it("fetches a large one again as often as whoever has it, from then on asked to pay", async () => {
    const buyer = await richBuyer(chain);
    const url = `${gateway.url}/docs/large`;
    const { text } = await present(url, await sign(buyer, url));
    const statuses: number[] = [];
    for (let times = 0; times < 4; times += 1) {
      const answer = await showSignIn(
        url,
        await signChallenge(await challengeOf(url), buyer.account),
      );
      statuses.push(answer.status);
      if (answer.status === 200) expect(answer.text).toBe(text);
    }
    expect(statuses).toEqual([200, 200, 200, 402]);
    expect(await charged(buyer)).toBe(PRICE);
  });

  it("is a smart wallet, which is asked itself, on its own chain", async () => {
    const owner = freshAccount();
    const wallet = await chain.deployWallet(owner.address);
    await chain.fund(wallet, PURSE);
    const url = `${gateway.url}/docs/wallet`;
    const header = await sign(owner, url, { overrides: { from: wallet } });
    expect((await present(url, header)).status).toBe(200);
    const by = async (signer: FreshAccount): Promise<number> => {
      const { account } = signer;
      const asWallet = { address: wallet, signMessage: account.signMessage.bind(account) };
      const signed = await signChallenge(await challengeOf(url), asWallet);
      return (await showSignIn(url, signed)).status;
    };
    expect(await by(freshAccount())).toBe(402);
    expect(await by(owner)).toBe(200);
    expect(PURSE - (await chain.balanceOf(wallet))).toBe(PRICE);
  });

  it("speaks version 1, and has the text written for its wallet", async () => {
    const buyer = await richBuyer(chain);
    const url = `${gateway.url}/docs/older`;
    await present(url, await sign(buyer, url));
    const place = `${gateway.url}/.well-known/x402/sign-in`;
    const plain = Object(await (await fetch(place)).json());
    expect(plain.info).toMatchObject({ uri: PUBLIC_URL, domain: new URL(PUBLIC_URL).host });
    expect(plain.supportedChains).toEqual([{ chainId: "eip155:84532", type: "eip191" }]);
    const asked = `${place}?address=${buyer.address.toLowerCase()}&network=base-sepolia`;
    const { answer, message } = Object(await (await fetch(asked)).json());
    expect(answer.address).toBe(buyer.address);
    const signature = await buyer.account.signMessage({ message });
    const shown = await showSignIn(url, btoa(JSON.stringify({ ...answer, signature })));
    expect(shown).toMatchObject({ status: 200, text: goods("/docs/older") });
    expect((await fetch(`${place}?address=0x12&network=base-sepolia`)).status).toBe(400);
    expect((await fetch(`${place}?address=${buyer.address}&network=eip155:1`)).status).toBe(400);
  });
});
