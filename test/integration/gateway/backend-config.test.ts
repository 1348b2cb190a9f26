import { randomUUID } from "node:crypto";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, onTestFinished, test } from "vitest";
import { start } from "../../../src/app.ts";
import { formatProblems, parseConfig } from "../../../src/config/config.ts";
import { AUTHORITY, BACKEND_CERTIFICATE, BACKEND_KEY } from "../../support/upstream-tls.ts";
import { Target } from "./backend-stage.ts";
import { startIdleFacilitator } from "../../support/scripted-facilitator.ts";
import { send } from "./stage.ts";

const FOLDER = join(tmpdir(), `coinslot-test-${randomUUID()}`);

const config = (origins: readonly string[], facilitatorUrl: string): string => `
listen: 127.0.0.1:0
publicUrl: http://shop.example
payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"
accept: [base-sepolia]
facilitator: ${facilitatorUrl}
unmatched: deny
store: sqlite:${join(FOLDER, "ledger.db")}
logging: { level: silent }
admin: 127.0.0.1:0
headers: { allow: [X-Kept] }
upstreams:
  api:
    targets: [${origins.map((url, index) => `{ url: ${url}, weight: ${index + 1} }`).join(", ")}]
    health: { path: /healthz, interval: 100ms, timeout: 100ms }
    tls: { ca: /ca.pem, serverName: api.internal }
    host: api.internal
    path: { strip: /v1, prefix: /internal }
    headers: { set: { X-Api-Key: "\${KEY}" }, remove: [Server, Cookie] }
routes:
  /v1/free/*: free
  GET /v1/weather: { price: $0.01, description: Weather }
`;

const backend = (letter: string): Promise<Target> =>
  new Target(
    ({ url, headers }, response) => {
      response.setHeader("Server", "backend");
      const { host, cookie, "x-api-key": key, "x-kept": kept, "x-other": other } = headers;
      response.end(JSON.stringify({ letter, url, host, cookie, key, kept, other }));
    },
    { cert: BACKEND_CERTIFICATE, key: BACKEND_KEY },
  ).start();

afterAll(() => rm(FOLDER, { recursive: true, force: true }));

test("a file with every part of an upstream becomes a gateway that does all of it", async () => {
  const targets = [await backend("a"), await backend("b")];
  await using facilitator = await startIdleFacilitator();
  const origins = targets.map(({ origin }) => origin);
  const parsed = parseConfig(config(origins, facilitator.url), {
    file: "test.yaml",
    env: { KEY: "secret" },
    readFile: (path) => {
      if (path === "/ca.pem") return AUTHORITY;
      throw new Error(`no such file: ${path}`);
    },
  });
  if (!parsed.ok) throw new Error(formatProblems(parsed.problems, parsed.text));
  const running = await start(parsed.config, "test");
  onTestFinished(() => running.close({ atOnce: true }));
  const port = running.addresses.gateway[0]?.port ?? 0;

  const answers = [];
  for (let count = 0; count < 3; count += 1) {
    const lines = ["X-Api-Key", "guess", "Cookie", "d", "X-Kept", "e", "X-Other", "f"];
    answers.push(await send(port, { path: "/v1/free/a?b=c", headers: lines }));
  }

  const seen = answers.map(({ body }) => JSON.parse(body.toString()) as { letter: string });
  expect(seen.map(({ letter }) => letter).sort()).toEqual(["a", "b", "b"]);
  const common = { url: "/internal/free/a?b=c", host: "api.internal", key: "secret", kept: "e" };
  expect(seen).toEqual(seen.map(({ letter }) => ({ letter, ...common })));
  expect(answers.map(({ headers }) => headers.server)).toEqual([undefined, undefined, undefined]);
  await expect.poll(() => targets[0]?.seen.includes("GET /healthz")).toBe(true);
  const question = JSON.parse((await send(port, { path: "/v1/weather" })).body.toString());
  expect(question).toMatchObject({ accepts: [{ resource: "http://shop.example/v1/weather" }] });
  expect((await send(port, { path: "/internal/free/a" })).status).toBe(404);
});
