/** `coinslot pay` before sellers who lie, break off and lead astray: what it signs, and what it never sends. */
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { createServer, type RequestListener } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { recoverTypedDataAddress } from "viem";
import { privateKeyToAddress } from "viem/accounts";
import { PaymentPayloadSchema } from "x402/types";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { drain, listen } from "../../../src/gateway/listener/listener.ts";
import { decodePaymentHeader } from "../../../src/x402/header.ts";
import { networkOf } from "../../../src/x402/network.ts";
import { requirementsFor } from "../../support/payer.ts";
import { openSeller, type OddSeller } from "./odd-seller.ts";
import { runHere } from "./run-here.ts";

const KEY = `0x${"22".repeat(32)}` as const;
const BUYER = privateKeyToAddress(KEY);
const PAYEE = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";
const MAIN = join(import.meta.dirname, "../../../src/main.ts");
const env = { COINSLOT_KEY: KEY };
const run = promisify(execFile);

let closing: AsyncDisposableStack;
let folder: string;

beforeEach(async () => {
  closing = new AsyncDisposableStack();
  folder = await mkdtemp(join(tmpdir(), "coinslot-hostile-"));
  closing.defer(() => rm(folder, { recursive: true }));
});

afterEach(() => closing.disposeAsync());

/** Asks for payment with that body. */
function open(quote: string, ...steps: readonly RequestListener[]): Promise<OddSeller> {
  return openSeller(closing, { body: quote }, ...steps);
}

const good = requirementsFor("base-sepolia", { payTo: PAYEE, description: "A thing" });

function quoteOf(...accepts: readonly unknown[]): string {
  return JSON.stringify({ x402Version: 1, error: "pay", accepts });
}

/** The path of the payment that was kept. */
function keptIn(stderr: string): string {
  const [, file = ""] = /the payment is kept in (\S+);/.exec(stderr) ?? [];
  return file;
}

const receipt = Buffer.from(
  JSON.stringify({
    success: true,
    transaction: `0x${"ab".repeat(32)}`,
    network: "base-sepolia",
    payer: BUYER,
  }),
).toString("base64");

const sold = { "X-PAYMENT-RESPONSE": receipt };

describe("a quote", () => {
  test.each([
    ["is no JSON", "<html>", /not a JSON object/],
    ["is of another version", '{"x402Version":2,"accepts":[]}', /of version 2 of x402/],
    ["has no list", '{"x402Version":1,"error":"","accepts":{}}', /no list of offers/],
    [
      "is huge",
      quoteOf({ ...good, description: "x".repeat(2_000_000) }),
      /larger than 1048576 bytes/,
    ],
  ])("that %s is told, and nothing is signed", async (_, quote, message) => {
    const seller = await open(quote);
    const { code, stdout, stderr } = await runHere(["pay", seller.url, "-y"], env);
    expect(stderr).toMatch(message);
    expect({ code, stdout, payments: seller.payments }).toEqual({
      code: 1,
      stdout: "",
      payments: [],
    });
  });

  test.each([
    ["amount is a number", { maxAmountRequired: 10_000 }, /has no amount/],
    ["amount is zero", { maxAmountRequired: "0" }, /has no amount/],
    ["amount is negative", { maxAmountRequired: "-1" }, /has no amount/],
    ["amount is beyond all bounds", { maxAmountRequired: "9".repeat(90) }, /has no amount/],
    ["amount is 2^256 - 1", { maxAmountRequired: String(2n ** 256n - 1n) }, /more than the most/],
    ["network is unknown", { network: "base-mainnet" }, /the network is not known here/],
    ["token is unknown", { asset: PAYEE }, /the token is not known here/],
    ["payee is no address", { payTo: "0xme" }, /payTo is not an EVM address/],
    ["scheme is another", { scheme: "upto" }, /is not of the scheme "exact"/],
    ["time is no number", { maxTimeoutSeconds: "60" }, /no usable maxTimeoutSeconds/],
    ["network is an object", { network: { toString: "base" } }, /no usable network/],
  ])("whose %s is never paid", async (_, members, message) => {
    const seller = await open(quoteOf({ ...good, ...members }));
    const { code, stderr } = await runHere(["pay", seller.url, "-y"], env);
    expect(stderr).toMatch(message);
    expect({ code, payments: seller.payments }).toEqual({ code: 3, payments: [] });
  });

  test("with one odd offer and one good one is paid by the good one", async () => {
    const seller = await open(quoteOf(null, { ...good, network: "moon" }, good));
    const { code, stderr } = await runHere(["pay", seller.url, "-y"], env);
    expect(stderr).toContain("offer 1 is not an object");
    expect(code).toBe(0);
  });

  test("that misnames a known token or asks for a year gets the true name and an hour", async () => {
    const lie = { ...good, extra: { name: "Evil", version: "9" }, maxTimeoutSeconds: 31_536_000 };
    const seller = await open(quoteOf(lie));
    expect((await runHere(["pay", seller.url, "-y"], env)).code).toBe(0);
    const decoded = decodePaymentHeader(seller.payments[0] ?? "");
    // The reference facilitator reads it, too.
    expect(PaymentPayloadSchema.safeParse(decoded.ok ? decoded.value : null).success).toBe(true);
    const { signature, authorization } = Object(decoded.ok ? decoded.value.payload : {});
    const network = networkOf("base-sepolia");
    if (network.kind !== "evm") throw new Error("base-sepolia is an EVM network");
    const recovered = await recoverTypedDataAddress({
      domain: {
        ...network.asset.eip712,
        chainId: network.chainId,
        verifyingContract: `0x${network.asset.address.slice(2)}`,
      },
      types: {
        TransferWithAuthorization: [
          { name: "from", type: "address" },
          { name: "to", type: "address" },
          { name: "value", type: "uint256" },
          { name: "validAfter", type: "uint256" },
          { name: "validBefore", type: "uint256" },
          { name: "nonce", type: "bytes32" },
        ],
      },
      primaryType: "TransferWithAuthorization",
      message: {
        ...authorization,
        value: BigInt(authorization.value),
        validAfter: BigInt(authorization.validAfter),
        validBefore: BigInt(authorization.validBefore),
      },
      signature,
    });
    expect(recovered).toBe(BUYER);
    expect(authorization).toMatchObject({ from: BUYER, to: PAYEE, value: "10000" });
    const seconds = Number(authorization.validBefore) - Date.now() / 1_000;
    expect(seconds).toBeLessThanOrEqual(3_600);
  });

  test("that names the buyer as payer of the network fee on Solana is not signed", async () => {
    const { freshSolanaKey } = await import("../../support/solana-key.ts");
    const key = freshSolanaKey();
    const offer = {
      ...good,
      network: "solana-devnet",
      asset: networkOf("solana-devnet").asset.address,
      payTo: freshSolanaKey().address,
      extra: { feePayer: key.address },
    };
    const seller = await open(quoteOf(offer));
    const { code, stderr } = await runHere(["pay", seller.url, "-y"], { COINSLOT_KEY: key.secret });
    expect(stderr).toContain("the seller names you to pay the network fee");
    expect({ code, payments: seller.payments }).toEqual({ code: 1, payments: [] });
  });
});

describe("an answer that is lost after paying", () => {
  test("is asked for again with the very same payment", async () => {
    const seller = await open(
      quoteOf(good),
      (request) => request.socket.destroy(),
      (_, response) => response.setHeader("X-PAYMENT-RESPONSE", receipt).end("sold"),
    );
    const { code, stdout, stderr } = await runHere(["pay", seller.url, "-y"], env);
    expect(stderr).toMatch(/cut .*: the same payment is sent again in 1 s/);
    expect({ code, stdout }).toEqual({ code: 0, stdout: "sold" });
    expect(seller.payments.length).toBe(2);
    expect(seller.payments[1]).toBe(seller.payments[0]);
  });

  test("half-way is completed, not repeated", async () => {
    const seller = await open(
      quoteOf(good),
      (_, response) => {
        response.writeHead(200, { "Content-Length": 10, "X-PAYMENT-RESPONSE": receipt });
        response.write("01234", () => response.destroy());
      },
      (_, response) => response.end("0123456789"),
    );
    const { code, stdout } = await runHere(["pay", seller.url, "-y", "-i"], env);
    expect(stdout.split("\r\n\r\n")[1]).toBe("0123456789");
    expect(code).toBe(0);
  });

  test("and then is another one keeps the payment, which buys again where it belongs", async () => {
    const seller = await open(
      quoteOf(good),
      (_, response) => {
        response.writeHead(200, { "Content-Length": 10, "X-PAYMENT-RESPONSE": receipt });
        response.write("01234", () => response.destroy());
      },
      (_, response) => response.end("abcdefghij"),
    );
    const lost = await runHere(["pay", `${seller.url}?secret=1`, "-y", "--keep", folder], env);
    const file = keptIn(lost.stderr);
    expect(lost.code).toBe(4);
    expect(lost.stderr).toContain("paid, but not served: the second answer begins differently");
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    expect(await readFile(file, "utf8")).not.toContain("secret");

    const elsewhere = await open(quoteOf(good));
    const astray = await runHere(["pay", elsewhere.url, "--payment", file]);
    expect(astray.stderr).toContain("and goes nowhere else");
    expect({ code: astray.code, payments: elsewhere.payments }).toEqual({ code: 1, payments: [] });

    const again = await runHere(["pay", `${seller.url}?secret=1`, "--payment", file]);
    expect({ code: again.code, stdout: again.stdout }).toEqual({ code: 0, stdout: "abcdefghij" });
    expect(new Set(seller.payments).size).toBe(1);
  });

  test("and is refused the second time may have been paid: the payment is kept", async () => {
    const seller = await open(
      quoteOf(good),
      (request) => request.socket.destroy(),
      (_, response) => response.writeHead(402).end('{"error":"invalid_transaction_state: used"}'),
    );
    const { code, stderr } = await runHere(["pay", seller.url, "-y", "--keep", folder], env);
    expect(keptIn(stderr)).toContain(folder);
    expect(stderr).toContain(
      "it is not known whether this was paid: 402: invalid_transaction_state",
    );
    expect(code).toBe(4);
  });

  test("because of Ctrl-C may have been paid: the payment is kept before the process ends", async () => {
    const asked = Promise.withResolvers<void>();
    const seller = await open(quoteOf(good), () => asked.resolve());
    const words = [MAIN, "pay", seller.url, "-y", "--keep", folder];
    const child = spawn(process.execPath, words, { env: { ...process.env, ...env } });
    let stderr = "";
    child.stderr.on("data", (part: Buffer) => (stderr += part.toString()));
    const ended = once(child, "close");
    await asked.promise;
    child.kill("SIGINT");
    expect(await ended).toEqual([4, null]);
    const kept: unknown = JSON.parse(await readFile(keptIn(stderr), "utf8"));
    expect(kept).toMatchObject({ xPayment: seller.payments[0], payer: BUYER });
  });

  test("into a file that cannot be written is not paid for at all", async () => {
    const seller = await open(quoteOf(good));
    const words = ["pay", seller.url, "-y", "-o", "/nonexistent/file"];
    const { code } = await runHere(words, env);
    expect({ code, payments: seller.payments }).toEqual({ code: 1, payments: [] });
  });
});

describe("a redirect", () => {
  /** What the requests of one server were, with their payments. */
  async function serve(answer: RequestListener): Promise<{ url: string; asked: string[] }> {
    const asked: string[] = [];
    const server = createServer((request, response) => {
      const paid = request.headers["x-payment"] === undefined ? "" : " paid";
      asked.push(
        `${request.method} ${request.url}${paid} ${String(request.headers["x-secret"] ?? "-")}`,
      );
      answer(request, response);
    });
    const { port } = await listen(server, { host: "127.0.0.1", port: 0 });
    closing.defer(() => drain(server, AbortSignal.abort()));
    return { url: `http://127.0.0.1:${port}`, asked };
  }

  const SECRET = ["-H", "X-Secret: s"];
  test("takes no payment along", async () => {
    const other = await open(quoteOf(good));
    const seller = await open(quoteOf(good), (_, response) =>
      response.writeHead(307, { Location: other.url }).end(),
    );
    const { code, stderr } = await runHere(["pay", seller.url, "-y", "-L"], env);
    expect(stderr).toContain("redirected elsewhere, where no payment is taken");
    expect(stderr).toContain(`it led to ${other.url}`);
    expect({ code, payments: other.payments }).toEqual({ code: 5, payments: [] });
  });

  test("of what is free is shown, and followed when told to: without a key, and without headers elsewhere", async () => {
    const other = await serve((_, response) => response.end("elsewhere"));
    const seller = await serve((request, response) => {
      const target = request.url === "/away" ? `${other.url}/x?signed=1` : "/there";
      if (request.url === "/there") return void response.end("there");
      response.writeHead(request.method === "POST" ? 303 : 302, { Location: target }).end("moved");
    });
    const shown = await runHere(["pay", `${seller.url}/away`, ...SECRET]);
    expect(shown).toMatchObject({ code: 6, stdout: "moved" });
    expect(shown.stderr).toContain(`a redirect to ${other.url}/x?signed=1; -L follows it`);
    const output = join(folder, "body");
    const json = await runHere(["pay", `${seller.url}/away`, "-o", output, "--json"]);
    const location = `${other.url}/x?signed=1`;
    expect(JSON.parse(json.stdout)).toMatchObject({ status: 302, paid: false, location });
    expect(other.asked).toEqual([]);

    const away = await runHere(["pay", `${seller.url}/away`, ...SECRET, "-L"]);
    expect(away).toMatchObject({ code: 0, stdout: "elsewhere" });
    expect(other.asked).toEqual(["GET /x?signed=1 -"]);
    const here = await runHere(["pay", `${seller.url}/here`, "-d", "{}", ...SECRET, "-L"]);
    expect(here).toMatchObject({ code: 0, stdout: "there" });
    expect(seller.asked.slice(-2)).toEqual(["POST /here s", "GET /there s"]);
  });

  test("to another place is not paid there, and without end is given up", async () => {
    const other = await open(quoteOf(good));
    let target = other.url;
    const seller = await serve((_, response) =>
      response.writeHead(302, { Location: target }).end(),
    );
    const away = await runHere(["pay", seller.url, "-y", "-L"], env);
    const { origin } = new URL(other.url);
    expect(away.stderr).toContain(`it redirects to another place, ${origin}, which asks for`);
    expect({ code: away.code, payments: other.payments }).toEqual({ code: 1, payments: [] });
    target = "/again";
    const round = await runHere(["pay", seller.url, "-y", "-L"], env);
    expect(round.stderr).toContain("more than 5 redirects");
    expect(seller.asked.length).toBe(1 + 6);
    target = "file:///etc/passwd";
    const odd = await runHere(["pay", seller.url, "-y", "-L"], env);
    expect(odd).toMatchObject({ code: 1, stdout: "" });
  });

  test("that was paid for is shown with its receipt, and its payment kept where it may still be taken", async () => {
    const other = await serve((_, response) => response.end("stored"));
    let target = `${other.url}/object`;
    const seller = await open(quoteOf(good), (_, response) =>
      response.writeHead(302, { ...sold, Location: target }).end(),
    );
    const words = ["pay", seller.url, "-y", "--keep", folder];
    const away = await runHere(words, env);
    expect(away.stderr).toMatch(/^paid 0\.01 USDC/m);
    expect(away.stderr).toContain(`paid, and the answer is a redirect to ${other.url}/object`);
    expect(away.stderr).not.toContain("the payment is kept");
    expect({ code: away.code, asked: other.asked }).toEqual({ code: 6, asked: [] });

    const followed = await runHere([...words, "-L", ...SECRET], env);
    expect(followed).toMatchObject({ code: 0, stdout: "stored" });
    expect(followed.stderr).toMatch(/^ {2}transaction +0x(?:ab){32}$/m);
    expect(other.asked).toEqual(["GET /object -"]);

    target = "/thing/";
    const here = await runHere(words, env);
    expect(here.code).toBe(6);
    expect(here.stderr).toContain(`repeat the command with -L --payment ${keptIn(here.stderr)}`);
    // Nobody delivers it there: what was paid stays known, and it is not to be sent again and again.
    const seen: string[] = [];
    const again = await open(
      quoteOf(good),
      (_, response) => response.writeHead(302, { ...sold, Location: "/thing/" }).end(),
      (request, response) => {
        seen.push(String(request.url));
        response.end("the thing");
      },
    );
    const bought = await runHere(["pay", again.url, "-y", "-L"], env);
    expect(bought).toMatchObject({ code: 0, stdout: "the thing" });
    expect(seen).toEqual(["/thing/"]);
    expect(new Set(again.payments).size).toBe(1);
  });
});

describe("a payment that brings nothing more", () => {
  const HELP = { Link: '</terms>; rel="terms", <mailto:help@shop.example>; rel="help"' };

  test("is not to be sent again, and the seller's words and its help are told", async () => {
    const gone =
      "invalid_transaction_state: paid in 0x1, and each attempt to deliver it has failed";
    const seller = await open(
      quoteOf(good),
      (_, response) => response.writeHead(502, { ...sold, ...HELP }).end(),
      (_, response) => response.writeHead(409, HELP).end(JSON.stringify({ error: gone })),
    );
    const lost = await runHere(["pay", seller.url, "-y", "--keep", folder], env);
    expect(lost.code).toBe(4);
    expect(lost.stderr).toContain(`paid, but not served: 409: ${gone}`);
    expect(lost.stderr).toContain("the seller does not take it any more, do not send it again");
    expect(lost.stderr).not.toContain("repeat the command");
    expect(lost.stderr).toContain("the seller helps buyers at mailto:help@shop.example");
    const file = keptIn(lost.stderr);
    expect(JSON.parse(await readFile(file, "utf8"))).toMatchObject({ over: `409: ${gone}` });

    const again = await runHere(["pay", seller.url, "--payment", file]);
    expect(again.code).toBe(4);
    expect(again.stderr).toContain(`the seller did not take it any more: 409: ${gone}`);
    expect(again.stderr).toContain("paid, but not served: 409:");
    expect(again.stderr).not.toContain("repeat the command");
    expect(keptIn(again.stderr)).toBe(file);
  });

  test("because its request lacks something was not settled, which is told as the seller says it", async () => {
    const error = "invalid_payload: the query needs city";
    const seller = await open(quoteOf(good), (_, response) =>
      response.writeHead(400, HELP).end(JSON.stringify({ error })),
    );
    const { code, stdout, stderr } = await runHere(["pay", seller.url, "-y"], env);
    expect(stderr).toContain(`the payment was not settled: 400: ${error}`);
    expect(stderr).toContain("mailto:help@shop.example");
    expect({ code, stdout: JSON.parse(stdout) }).toEqual({ code: 5, stdout: { error } });
  });
});

describe("on a terminal", () => {
  test.each([
    ["y", 0, 1, {}],
    ["", 3, 0, { NO_COLOR: "1" }],
    ["n", 3, 0, {}],
  ])("the answer %j ends with %d", async (typed, code, payments, colors) => {
    const seller = await open(quoteOf(good));
    await writeFile(join(folder, "typed"), `${typed}\n`);
    // A terminal of its own, to which what is typed comes once the question is there.
    const command = `${process.execPath} ${MAIN} pay ${seller.url} -o ${join(folder, "body")}`;
    const typing = `(while ! grep -q 'y/N' ${folder}/seen 2>/dev/null; do sleep 0.1; done; cat ${folder}/typed; sleep 1)`;
    const shell = `${typing} | script -qefc '${command}' ${folder}/seen`;
    const { NO_COLOR: _, ...inherited } = process.env;
    const ended = await run("sh", ["-c", shell], { env: { ...inherited, ...env, ...colors } }).then(
      ({ stdout }) => ({ code: 0, stdout }),
      (error: { code: number; stdout: string }) => error,
    );
    expect(ended.stdout).toContain("0.01 USDC ($0.01) on base-sepolia");
    // Colours, as this is a terminal, unless its user wants none.
    if ("NO_COLOR" in colors) expect(ended.stdout).not.toContain("\u001b[1m");
    else expect(ended.stdout).toContain("\u001b[1m0.01 USDC");
    expect({ code: ended.code, payments: seller.payments.length }).toEqual({ code, payments });
  });
});

test("a key on the command line, or none, is refused with advice", async () => {
  const seller = await open(quoteOf(good));
  const literal = await runHere(["pay", seller.url, "-y", "--key", KEY]);
  expect(literal.stderr).toContain("a key must not stand on the command line");
  expect(literal.stderr).not.toContain(KEY.slice(2));
  expect((await runHere(["pay", seller.url, "-y"])).stderr).toContain("coinslot keygen makes one");
  expect(seller.payments).toEqual([]);
});

test.each([
  ["a bare number", ["--max", "0.05"], /--max .*Write '\$0\.05' in quotes/],
  ["a header of its own", ["-H", "X-PAYMENT: abc"], /X-PAYMENT is not yours to set/],
  ["two lines in a header", ["-H", "A: b\r\nC: d"], /A header is 'Name: value', on one line/],
  ["JSON without a file", ["--json"], /--json needs --output FILE/],
  ["a kept payment and a key", ["--payment", "a", "--key", "env:B"], /cannot be used with option/],
])("%s is wrong usage", async (_, words, message) => {
  const { code, stderr } = await runHere(["pay", "http://127.0.0.1:1/", ...words], env);
  expect(stderr).toMatch(message);
  expect(code).toBe(2);
});
