/** `coinslot doctor` on what others run: Solana nodes, facilitators elsewhere, and upstreams that speak TLS. */
import { createServer as createTlsServer } from "node:https";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { drain, listen } from "../../../src/gateway/listener/listener.ts";
import { EXPIRED, FIRST } from "../../support/listener-tls.ts";
import { startPostgres } from "../../support/postgres.ts";
import { startScriptedFacilitator } from "../../support/scripted-facilitator.ts";
import { testKey } from "../../support/solana-messages.ts";
import { SOLANA_ENV, SolanaStage } from "../../support/solana-stage.ts";
import { AUTHORITY, BACKEND_CERTIFICATE, BACKEND_KEY } from "../../support/upstream-tls.ts";
import { about, DoctorStage, fixOf, troubles } from "./doctor-stage.ts";

const PAYEE = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";
const SOLANA_PAYEE = testKey(3).address;
const FEE_PAYER = testKey(1).address;

let stage: DoctorStage;
let upstream: string;

beforeAll(async () => {
  stage = await DoctorStage.open();
  upstream = await stage.serve((request, response) => {
    response.writeHead(request.url === "/sick" ? 503 : 200).end();
  });
});

afterAll(() => stage.closing.disposeAsync());

afterEach(() => vi.useRealTimers());

/** What is left out of each test: nothing listens at the public URL. */
function rest(more: string): string {
  return `publicUrl: http://127.0.0.1:1
store: sqlite:${stage.folder}/none.db
unmatched: deny
${more}
routes: { GET /weather: { price: $0.01, description: Weather } }
`;
}

const NOT_RUNNING =
  "warn publicUrl: refuses connections: nothing listens there; no gateway is running here";

describe("Solana", () => {
  let solana: SolanaStage;

  beforeAll(async () => {
    solana = await SolanaStage.open();
  });

  afterAll(() => solana[Symbol.asyncDispose]());

  const yaml = (payTo: string): string =>
    rest(`upstream: ${upstream}
payTo: ${payTo}
accept: [solana-devnet]
facilitator:${solana.embedded}`);

  test("is checked by its genesis hash, its mint, our account and the payee's", async () => {
    const report = await stage.examine(yaml(SOLANA_PAYEE), SOLANA_ENV);

    expect(troubles(report)).toEqual([NOT_RUNNING]);
    expect(about(report, /^solana-devnet rpc /)).toEqual([
      expect.stringMatching(/^ok answers in \d+ ms, the right genesis hash, head \d+$/),
    ]);
    expect(about(report, /^solana-devnet token USDC$/)).toEqual([
      "ok 4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU has 6 decimals",
    ]);
    expect(about(report, /^solana-devnet account /)).toEqual([
      "ok key from env:SOLANA_KEY; has 1 SOL, a settlement costs 0.00001 SOL: enough for 100000",
    ]);
    expect(about(report, /^official clients/)).toEqual(["ok all can pay for GET /weather"]);
  });

  test("says with which command a missing token account is made", async () => {
    const stranger = testKey(9).address;
    const report = await stage.examine(yaml(stranger), SOLANA_ENV);

    expect(troubles(report)).toEqual([
      expect.stringMatching(
        new RegExp(`^warn solana-devnet: payTo ${stranger} has no token account for USDC yet`),
      ),
      NOT_RUNNING,
    ]);
    expect(fixOf(report, /no token account/)).toBe(
      "spl-token create-account 4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU " +
        `--owner ${stranger} --fee-payer <keypair> --url devnet`,
    );
  });
});

const kind = (network: string, extra?: object) => ({
  x402Version: 1,
  scheme: "exact",
  network,
  ...(extra === undefined ? {} : { extra }),
});

const elsewhere = (url: string, accept = "base-sepolia"): string =>
  rest(`upstream: ${upstream}
payTo: { evm: "${PAYEE}", solana: ${SOLANA_PAYEE} }
accept: [${accept}]
facilitator:
  remote: [{ url: "${url}", headers: { Authorization: "Bearer very-secret" } }]`);

describe("a facilitator elsewhere", () => {
  test("that settles what is sold, at our time, is fine", async () => {
    await using remote = await startScriptedFacilitator(() => ({
      status: 200,
      body: {
        kinds: [
          kind("base-sepolia"),
          kind("solana-devnet", { feePayer: FEE_PAYER }),
          {
            ...kind("solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1", { feePayer: FEE_PAYER }),
            x402Version: 2,
          },
        ],
      },
    }));
    const report = await stage.examine(elsewhere(remote.url, "base-sepolia, solana-devnet"));

    expect(troubles(report)).toEqual([NOT_RUNNING]);
    expect(about(report, /^facilitator /)).toEqual([
      "ok settles base-sepolia in version 1 (payments of version 2 are translated), " +
        "solana-devnet in versions 1 and 2",
      "ok its clock and ours agree",
    ]);
    expect(about(report, /^sales on /)).toEqual([
      "ok are settled by a facilitator elsewhere",
      `ok are settled elsewhere, fee payer ${FEE_PAYER}`,
    ]);
    const secrets = remote.calls.map(({ headers }) => headers.authorization);
    expect(secrets).toContain("Bearer very-secret");
    expect(JSON.stringify(report)).not.toContain("very-secret");
  });

  test("that settles something else, or names no fee payer, fails", async () => {
    await using remote = await startScriptedFacilitator(() => ({
      status: 200,
      body: { kinds: [{ ...kind("eip155:8453"), x402Version: 2 }, kind("solana-devnet")] },
    }));
    const report = await stage.examine(elsewhere(remote.url, "base-sepolia, solana-devnet"));
    expect(troubles(report)).toEqual([
      "fail sales on base-sepolia: no facilitator that answers settles them",
      "fail sales on solana-devnet: nobody says who pays the network fee, so nothing is sold",
      NOT_RUNNING,
    ]);
  });

  test("that takes version 2 alone settles what is sold in both", async () => {
    await using remote = await startScriptedFacilitator(() => ({
      status: 200,
      body: { kinds: [{ ...kind("eip155:84532"), x402Version: 2 }] },
    }));
    const report = await stage.examine(elsewhere(remote.url));
    expect(troubles(report)).toEqual([NOT_RUNNING]);
    expect(about(report, /^facilitator /)).toContain(
      "ok settles base-sepolia in version 2 (payments of version 1 are translated)",
    );
    expect(about(report, /^sales on /)).toEqual(["ok are settled by a facilitator elsewhere"]);
  });

  test("that has another time fails", async () => {
    const late = new Date(Date.now() - 300_000).toUTCString();
    await using remote = await startScriptedFacilitator(() => ({
      raw: (response) => {
        response.writeHead(200, { Date: late, "Content-Type": "application/json" });
        response.end(JSON.stringify({ kinds: [kind("base-sepolia")] }));
      },
    }));
    const report = await stage.examine(elsewhere(remote.url));
    expect(troubles(report)).toEqual([
      expect.stringMatching(/^fail facilitator .*: its clock is (?:299|300|301) s behind ours$/),
      NOT_RUNNING,
    ]);
  });

  test("that refuses us, or is not there, fails", async () => {
    await using remote = await startScriptedFacilitator(() => ({ status: 401, body: {} }));
    const refused = await stage.examine(elsewhere(remote.url));
    expect(troubles(refused)).toEqual([
      expect.stringMatching(
        /^fail facilitator .*: GET \/supported: .*status 401, no kinds in \/supported$/,
      ),
      expect.stringContaining("fail sales on base-sepolia: no facilitator that answers"),
      NOT_RUNNING,
    ]);
    const gone = await stage.examine(elsewhere("http://127.0.0.1:1"));
    expect(troubles(gone)).toEqual([
      expect.stringMatching(/^fail facilitator 127\.0\.0\.1:1: GET \/supported: .*ECONNREFUSED/),
      expect.stringContaining("fail sales on base-sepolia"),
      NOT_RUNNING,
    ]);
  });
});

const behind = (targets: string): string =>
  rest(`upstreams: { default: { targets: [${targets}] } }
payTo: "${PAYEE}"
accept: [base-sepolia]
facilitator: http://127.0.0.1:1`);

const ofUpstream = async (text: string): Promise<readonly string[]> =>
  about(await stage.examine(text), /^default /);

const secure = async (pair: { cert: string; key: string }): Promise<string> => {
  const server = createTlsServer(pair, (_, response) => response.end());
  const { port } = await listen(server, { host: "127.0.0.1", port: 0 });
  stage.closing.defer(() => drain(server, AbortSignal.abort()));
  return `https://127.0.0.1:${port}`;
};

describe("an upstream", () => {
  test("that is not there, or fails its health path, fails", async () => {
    const text = behind(`${upstream}, http://127.0.0.1:1`);
    expect(await ofUpstream(text)).toEqual([
      expect.stringMatching(/^ok answers HTTP \(200 to HEAD \/\) in \d+ ms$/),
      "fail refuses connections: nothing listens there",
    ]);
    const health = (path: string): string =>
      behind(upstream).replace("targets:", `health: { path: ${path} }, targets:`);
    expect(await ofUpstream(health("/well"))).toEqual([
      expect.stringMatching(/^ok is healthy: 200 to GET \/well in \d+ ms$/),
    ]);
    expect(await ofUpstream(health("/sick"))).toEqual([
      "fail answers 503 to its health path /sick",
    ]);
  });

  test("with a good certificate is told how long it lasts, and warned of when that is not long", async () => {
    await stage.write("ca.pem", AUTHORITY);
    const url = await secure({ cert: BACKEND_CERTIFICATE, key: BACKEND_KEY });
    const text = behind(url).replace(
      "targets:",
      "tls: { ca: ca.pem, serverName: api.internal }, targets:",
    );
    expect(await ofUpstream(text)).toEqual([
      expect.stringMatching(/^ok the certificate is valid for \d{5} days, until 2125-01-01$/),
      expect.stringMatching(/^ok answers HTTP/),
    ]);

    vi.useFakeTimers({ now: Date.UTC(2124, 11, 28), toFake: ["Date"] });
    expect(await ofUpstream(text)).toEqual([
      "warn the certificate is valid for 4 days, until 2125-01-01",
      expect.stringMatching(/^ok answers HTTP/),
    ]);
  });

  test("with a certificate that clients refuse fails before anything is sent to it", async () => {
    await stage.write("expired.pem", EXPIRED.cert);
    const expired = behind(await secure(EXPIRED)).replace(
      "targets:",
      "tls: { ca: expired.pem }, targets:",
    );
    expect(await ofUpstream(expired)).toEqual(["fail the certificate has expired"]);

    const own = behind(await secure(FIRST));
    expect(await ofUpstream(own)).toEqual(["fail the certificate is signed by itself"]);

    await stage.write("first.pem", FIRST.cert);
    const other = own.replace(
      "targets:",
      "tls: { ca: first.pem, serverName: api.internal }, targets:",
    );
    expect(await ofUpstream(other)).toEqual(["fail the certificate is for another name"]);
  });

  test("that does not speak TLS where it should fails", async () => {
    const text = behind(upstream.replace("http:", "https:"));
    expect(await ofUpstream(text)).toEqual(["fail does not speak TLS"]);
  });
});

const stored = (store: string): string =>
  rest(`upstream: ${upstream}
payTo: "${PAYEE}"
accept: [base-sepolia]
facilitator: http://127.0.0.1:1`).replace(/^store: .*$/m, `store: ${store}`);

describe("a store in PostgreSQL", () => {
  test("that is new is fine, and one that is not there fails without its password", async () => {
    await using server = await startPostgres();
    const url = await server.database();
    expect(about(await stage.examine(stored(url)), /^store$/)).toEqual([
      expect.stringMatching(/^ok 127\.0\.0\.1:\d+\/\w+: this database holds no ledger yet/),
    ]);
    const report = await stage.examine(stored("postgres://me:very-secret@127.0.0.1:1/coinslot"));
    expect(about(report, /^store$/)).toEqual([
      expect.stringMatching(/^fail 127\.0\.0\.1:1\/coinslot: /),
    ]);
    expect(JSON.stringify(report)).not.toContain("very-secret");
  });
});

describe("the certificate of a listener", () => {
  test("is told how long it lasts", async () => {
    await stage.write("tls.crt", FIRST.cert);
    await stage.write("tls.key", FIRST.key);
    const text = rest(`listen: [{ address: ":8443", tls: { cert: tls.crt, key: tls.key } }]
upstream: ${upstream}
payTo: "${PAYEE}"
accept: [base-sepolia]
facilitator: http://127.0.0.1:1`);
    expect(about(await stage.examine(text), /^listen\[0\] :8443$/)).toEqual([
      expect.stringMatching(/^ok the certificate is valid for \d{5} days, until 2125-01-01$/),
    ]);
    vi.useFakeTimers({ now: Date.UTC(2125, 0, 2), toFake: ["Date"] });
    expect(about(await stage.examine(text), /^listen\[0\] :8443$/)).toEqual([
      expect.stringMatching(/^fail .*tls\.crt has expired on 2125-01-01: clients refuse it$/),
    ]);
  });
});
