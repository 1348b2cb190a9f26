import { tmpdir } from "node:os";
import { join } from "node:path";
import { randomUUID } from "node:crypto";
import type { RequestListener } from "node:http";
import { afterAll, beforeAll, it } from "vitest";
import { SESSION_HEADER } from "../../src/x402/session.ts";
import { present, PURSE, richBuyer, sign, quote } from "../support/buyer.ts";
import { startChain, type Chain } from "../support/chain.ts";
import { startGateway } from "../support/gateway.ts";
import { type FreshAccount } from "../support/payer.ts";
import { openSessionAt } from "../support/sign-in.ts";
import { balanceIn } from "../support/prepaid.ts";

const closing = new AsyncDisposableStack();
let chain: Chain;
let status = 200;
const backend: RequestListener = (request, response) => {
  const url = request.url ?? "";
  response
    .writeHead(status, { "content-type": "application/json" })
    .end(
      JSON.stringify({ url, payer: request.headers["x-402-payer"], usage: { total_tokens: 100 } }),
    );
};
const charged = async ({ address }: Pick<FreshAccount, "address">) =>
  PURSE - (await chain.balanceOf(address));
const log = (...a: unknown[]) => console.log(...a);
const wait = (ms: number) => new Promise((d) => setTimeout(d, ms));
const store = () => join(tmpdir(), `probe-${randomUUID()}`, "ledger.db");
const METER = `meter: { of: json("usage.total_tokens"), each: $0.000002, max: $0.01 }`;
beforeAll(async () => {
  chain = await startChain();
  closing.defer(() => chain.stop());
});
afterAll(() => closing.disposeAsync());

it("D1 denied after", async () => {
  const storePath = store();
  const routes = `
  GET /bal: { price: $0.01, credits: true }
  GET /met: { ${METER}, credits: true }
  GET /gr: { price: $0.01, grants: 24h }
  GET /cn: { price: $0.01, grants: { for: 24h, times: 5 } }
  GET /pay: { price: $0.01, free: 5/d by payer }
  GET /adr: { price: $0.01, free: 5/d by address }
  GET /mem: { price: $0.01, prices: { staff: free } }
  GET /ps: { price: $0.02 }
  GET /plain: { price: $0.01 }
`;
  const buyer = await richBuyer(chain);
  const files = { "deny.txt": buyer.address, "allow.txt": "0x" + "1".repeat(40) };
  const more = (deny: string) =>
    `credits: { packs: [$1] }\nmembers: { staff: ["${buyer.address}"] }\npasses: { day: { price: $0.05, routes: [GET /ps], for: 24h } }\n${deny}`;
  await using g = await startGateway({ chain, backend, storePath, routes, files, more: more("") });
  for (const p of ["/.x402/credits/1", "/gr", "/cn", "/.x402/passes/day"]) {
    const a = await present(g.url + p, await sign(buyer, g.url + p));
    if (a.status !== 200) log("!!", p, a.status, a.text);
  }
  const owedUrl = `${g.url}/plain`;
  const owed = await sign(buyer, owedUrl);
  status = 503;
  await present(owedUrl, owed);
  status = 200;
  const session = await openSessionAt(g.url, buyer);
  const all = async (when: string) => {
    const told: string[] = [];
    for (const p of ["bal", "met", "gr", "cn", "pay", "adr", "mem", "ps"]) {
      const r = await fetch(`${g.url}/${p}`, { headers: { [SESSION_HEADER]: session } });
      told.push(`${p} ${r.status} ${r.headers.get("x-402-charged") ?? ""}`);
    }
    log(when, told.join(" | "));
  };
  await all("before");
  log("deny", await g.reroute(routes, more(`payers: { deny: [deny.txt] }`)));
  await all("denied");
  const b = await fetch(`${g.url}/.x402/balance`, { headers: { [SESSION_HEADER]: session } });
  log("balance", b.status, (await b.text()).slice(0, 200));
  const again = await present(owedUrl, owed);
  log("owed", again.status, await charged(buyer), balanceIn(storePath, buyer.address));
  log("allow other", await g.reroute(routes, more(`payers: { allow: [allow.txt] }`)));
  await all("not allowed");
});

it("P1 pause mid things", async () => {
  const storePath = store();
  const routes = `
  GET /bal: { price: $0.01, credits: true }
  GET /met: { ${METER}, credits: true }
  GET /cn: { price: $0.01, grants: { for: 24h, times: 5 } }
  GET /mem: { price: $0.01, free: 3/d by address }
`;
  await using g = await startGateway({
    chain,
    backend,
    storePath,
    routes,
    more: "credits: { packs: [$1] }",
    admin: "admin: { listen: 127.0.0.1:0 }",
  }).catch(async (e) => {
    log(String(e).slice(0, 300));
    return startGateway({ chain, backend, storePath, routes, more: "credits: { packs: [$1] }" });
  });
  const buyer = await richBuyer(chain);
  for (const p of ["/.x402/credits/1", "/cn"])
    await present(g.url + p, await sign(buyer, g.url + p));
  const session = await openSessionAt(g.url, buyer);
  const { openSqliteLedger } = await import("../../src/ledger/sqlite/sqlite.ts");
  void openSqliteLedger;
  const { DatabaseSync } = await import("node:sqlite");
  const db = new DatabaseSync(storePath);
  log(db.prepare("SELECT name, sql FROM sqlite_master WHERE name LIKE 'pause%'").all());
  db.close();
  void session;
});
