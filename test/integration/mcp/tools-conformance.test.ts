/** What the official suite asks of any server, asked of the tools that are made of routes. */
import { expect, it } from "vitest";
import { startChain } from "../../support/chain.ts";
import { freePort } from "../../support/free-port.ts";
import { startGateway } from "../../support/gateway.ts";
import { runConformance } from "../../support/mcp/conformance.ts";

/** All others call tools of the suite's own, or speak of what these are not: resources, prompts, logs, streams. */
const ASKED = ["server-initialize", "ping", "tools-list", "dns-rebinding-protection"];

it("is a server as the suite wants one", async () => {
  const chain = await startChain();
  await using closing = new AsyncDisposableStack();
  closing.defer(() => chain.stop());
  const listen = `127.0.0.1:${await freePort()}`;
  const routes = "\n  GET /a: { price: $0.01, description: A thing }\n";
  const setup = { chain, routes, more: "mcp: true", listen, publicUrl: `http://${listen}` };
  const gateway = closing.use(await startGateway(setup));
  const results = await runConformance(`${gateway.url}/mcp`);
  const asked = ASKED.map((name) => [name, results[name]]);
  expect(asked).toEqual(ASKED.map((name) => [name, expect.any(Array)]));
  for (const check of ASKED.flatMap((name) => results[name] ?? []))
    expect(check).toMatch(/: SUCCESS$/);
}, 120_000);
