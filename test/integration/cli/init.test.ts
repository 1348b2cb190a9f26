/** `coinslot init`: what it writes is accepted without a remark, serves, and is paid; what it cannot do it says. */
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { start } from "../../../src/app.ts";
import { loadConfig, parseConfig } from "../../../src/config/config.ts";
import { drain, listen } from "../../../src/gateway/listener/listener.ts";
import { richBuyer } from "../../support/buyer.ts";
import { startChain } from "../../support/chain.ts";
import { startGateway } from "../../support/gateway.ts";
import { runHere } from "./run-here.ts";

const run = promisify(execFile);
const MAIN = join(import.meta.dirname, "../../../src/main.ts");
const PAYEE = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";
const SOLANA_PAYEE = "2wKupLR9q6wXYppw8Gr2NvWxKBUqm4PPJKkQfoxHDBg4";
const UPSTREAM = ["--upstream", "http://localhost:3000"];
const ENOUGH = [...UPSTREAM, "--pay-to", PAYEE];

let folder: string;
let file: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "coinslot-init-"));
  file = join(folder, "gateway.yaml");
});

afterEach(() => rm(folder, { recursive: true }));

async function expectClean(path: string) {
  const loaded = await loadConfig(path);
  expect(loaded.problems).toEqual([]);
  if (!loaded.ok) throw new Error("the configuration is refused");
  return loaded.config;
}

describe("from options", () => {
  test("two are enough, and the next three commands are told", async () => {
    const { code, stdout } = await runHere(["init", file, ...ENOUGH]);
    expect(code).toBe(0);
    expect(stdout).toBe(
      `${file} is written
next:
  coinslot doctor ${file}       # is everything there that it needs?
  coinslot serve ${file}
  coinslot pay http://localhost:8402/ --dry-run
`,
    );
    const { routes, unmatched, facilitator } = await expectClean(file);
    expect(routes.map(({ key }) => key)).toEqual(["/*"]);
    expect(unmatched).toBe("deny");
    expect(facilitator.remote[0]?.url).toBe("https://x402.org/facilitator");
  });

  test("an editor finds the schema that the first line names, and one that is there stays", async () => {
    const schema = join(folder, "gateway.schema.json");
    expect((await runHere(["init", file, ...ENOUGH])).code).toBe(0);
    const [first = ""] = (await readFile(file, "utf8")).split("\n");
    expect(join(folder, /\$schema=(\S+)/.exec(first)?.[1] ?? "")).toBe(schema);
    expect(await readFile(schema, "utf8")).toBe((await runHere(["schema"])).stdout);

    await writeFile(schema, "mine");
    expect((await runHere(["init", file, ...ENOUGH, "--force"])).code).toBe(0);
    expect(await readFile(schema, "utf8")).toBe("mine");
  });

  test("settling here makes the keys that are missing, for the networks' families", async () => {
    const networks = ["--network", "base", "--network", "solana"];
    const words = ["init", file, ...ENOUGH, "--pay-to", SOLANA_PAYEE, ...networks];
    const { code, stdout } = await runHere(words);
    expect(code).toBe(0);
    const [, address] =
      /send (0x[0-9a-fA-F]{40}) a little ETH on base for the gas/.exec(stdout) ?? [];
    expect(address).toBeDefined();
    expect(stdout).toMatch(/send [1-9A-Za-z]{32,44} a little SOL on solana for the gas/);
    const key = join(folder, "coinslot-evm.key");
    expect((await stat(key)).mode & 0o777).toBe(0o600);
    const { facilitator } = await expectClean(file);
    expect(facilitator.embedded.map(({ network }) => network)).toEqual(["base", "solana"]);

    const before = await readFile(key, "utf8");
    const again = await runHere([...words, "--force"]);
    expect(again.code).toBe(0);
    expect(again.stdout).not.toContain("new key");
    expect(await readFile(key, "utf8")).toBe(before);
  });

  test("a file that is there stays, unless it is to be overwritten", async () => {
    await writeFile(file, "mine");
    const { code, stderr } = await runHere(["init", file, ...ENOUGH]);
    expect(code).toBe(1);
    expect(stderr).toContain("exists already; --force overwrites it");
    expect(await readFile(file, "utf8")).toBe("mine");
    expect((await runHere(["init", file, ...ENOUGH, "--force"])).code).toBe(0);
  });

  test.each([
    ["no upstream", ["--pay-to", PAYEE], "--upstream is missing, and there is no terminal"],
    ["neither", [], "--upstream and --pay-to are missing, and there is no terminal"],
    ["no payee", UPSTREAM, "--pay-to is missing, and there is no terminal"],
    ["no payee of a family", [...ENOUGH, "--network", "base,solana"], "--pay-to is missing"],
    ["a payee too many", [...ENOUGH, "--pay-to", SOLANA_PAYEE], "on no network that is accepted"],
    ["a mistyped payee", [...UPSTREAM, "--pay-to", PAYEE.replace("2096", "2097")], "the checksum"],
    ["an upstream with a path", ["--upstream", "http://a/b", "--pay-to", PAYEE], "--upstream must"],
    ["a bare price", [...ENOUGH, "--price", "0.01"], "--price a bare number as a price could mean"],
    ["an unknown network", [...ENOUGH, "--network", "bass"], "did you mean"],
  ])("%s is told by its option, and nothing is written", async (_, words, message) => {
    const { code, stderr } = await runHere(["init", file, ...words]);
    expect(stderr).toContain(message);
    expect(code).toBe(2);
    await expect(stat(file)).rejects.toThrow("ENOENT");
  });
});

describe("from a description", () => {
  const HOSTILE = 'A "thing" for ${HOME} & $${X}: #1\\n- [*a] {b} %c @d `e` \u2028 \u0085 !f';

  test("its routes are sold one by one, whatever is written in it", async () => {
    const paths = {
      "/pets": {
        get: {
          summary: HOSTILE,
          parameters: [{ in: "query", name: "${A}: b", description: HOSTILE }],
        },
      },
      "/pets/{id}": {
        get: { responses: { 200: { content: { "application/json": {} } } } },
        delete: {},
      },
      "/files/{name}.{ext}": { get: {} },
      "/100%25/~me": { get: {} },
    };
    const description = {
      openapi: "3.0.0",
      info: { title: "Pets\n: x" },
      servers: [{ url: "/v1" }],
      paths,
    };
    const from = join(folder, "api.json");
    await writeFile(from, JSON.stringify(description));
    const { code, stderr, stdout } = await runHere(["init", file, ...ENOUGH, "--from", from]);
    expect(stderr).toContain("4 routes, 1 not imported");
    expect(stderr).toContain("GET /files/{name}.{ext}: a segment has more than one parameter");
    expect(code).toBe(0);
    expect(stdout).toContain("coinslot pay http://localhost:8402/v1/pets --dry-run");

    const { routes } = await expectClean(file);
    expect(routes.map(({ key }) => key)).toEqual([
      "GET /v1/pets",
      "GET /v1/pets/:id",
      "DELETE /v1/pets/:id",
      "GET /v1/100%25/~me",
    ]);
    const [pets, pet] = routes.map(({ action }) => action);
    expect(pets).toMatchObject({
      description: expect.stringMatching(/^A "thing" for \$\{HOME\} & \$\$\{X\}: #1/),
    });
    expect(pet).toMatchObject({ mimeType: "application/json" });
  });

  test("what buyers have to send and get is kept, and what is not for them is not sold", async () => {
    const pet = {
      type: "object",
      required: ["name"],
      properties: { name: { type: "string" }, tag: { type: "string", nullable: true } },
    };
    const description = {
      openapi: "3.0.3",
      info: { title: "Pets", version: "1" },
      components: {
        schemas: {
          Pet: pet,
          Node: { properties: { next: { $ref: "#/components/schemas/Node" } } },
        },
        responses: {
          Pet: {
            description: "One",
            content: { "application/json": { schema: { $ref: "#/components/schemas/Pet" } } },
          },
        },
        securitySchemes: { key: { type: "http", scheme: "bearer" } },
      },
      paths: {
        "/pets/{pet-id}": {
          parameters: [
            { name: "pet-id", in: "path", required: true, schema: { type: "integer" } },
            { name: "X-Shop", in: "header", required: true, schema: { type: "string" } },
            { name: "Authorization", in: "header", schema: { type: "string" } },
          ],
          get: { responses: { 200: { $ref: "#/components/responses/Pet" } } },
          put: {
            requestBody: {
              content: { "application/json": { schema: { $ref: "#/components/schemas/Pet" } } },
            },
            responses: {},
          },
        },
        "/nodes": {
          post: {
            requestBody: {
              content: { "application/json": { schema: { $ref: "#/components/schemas/Node" } } },
            },
            responses: {},
          },
        },
        "/upload": {
          post: { requestBody: { content: { "multipart/form-data": {} } }, responses: {} },
        },
        "/healthz": { get: { responses: {} } },
        "/metrics": { get: { responses: {} } },
        "/users": { get: { security: [{ key: [] }], responses: {} } },
        "/maybe": { get: { security: [{}, { key: [] }], responses: {} } },
      },
    };
    const server = createServer((request, response) => {
      response.statusCode = request.url === "/openapi.json" ? 200 : 404;
      response.end(JSON.stringify(description));
    });
    const { port } = await listen(server, { host: "127.0.0.1", port: 0 });
    const url = `http://127.0.0.1:${port}/openapi.json`;
    const missing = await runHere(["init", file, ...ENOUGH, "--from", `${url}.old`]);
    expect(missing).toMatchObject({ code: 1, stderr: expect.stringContaining("answers 404") });
    const { code, stderr } = await runHere(["init", file, ...ENOUGH, "--from", url]);
    await drain(server, AbortSignal.timeout(1_000));
    expect(code).toBe(0);
    expect(stderr).toContain("not sold GET /healthz: free, since it tells");
    expect(stderr).toContain("not sold GET /metrics: denied, since it is the operator's");
    expect(stderr).toContain("not sold GET /users: denied, since it wants a credential");
    expect(await readFile(join(folder, "openapi.json"), "utf8")).toBe(JSON.stringify(description));

    const { routes, discovery } = await expectClean(file);
    expect(discovery.openapi).toMatchObject({ file: join(folder, "openapi.json") });
    const actions = Object.fromEntries(routes.map(({ key, action }) => [key, action]));
    expect(actions["GET /healthz"]).toMatchObject({ kind: "free" });
    expect(actions["GET /metrics"]).toMatchObject({ kind: "deny" });
    expect(actions["GET /users"]).toMatchObject({ kind: "deny" });
    expect(actions["GET /maybe"]).toMatchObject({ kind: "priced" });
    expect(actions["GET /pets/:pet_id"]).toMatchObject({
      input: {
        pathParams: { pet_id: { type: "integer" } },
        headerFields: { "X-Shop": { type: "string", required: true } },
      },
      outputSchema: {
        ...pet,
        properties: { ...pet.properties, tag: { type: ["string", "null"] } },
      },
    });
    expect(actions["PUT /pets/:pet_id"]).toMatchObject({
      input: {
        bodyType: "json",
        bodyFields: { name: { type: "string", required: true }, tag: { type: ["string", "null"] } },
      },
    });
    // What has no end is left out, and the body is known all the same.
    expect(actions["POST /nodes"]).toMatchObject({ input: { bodyType: "json" } });
    expect(actions["POST /nodes"]).not.toHaveProperty("input.bodyFields");
    expect(actions["POST /upload"]).toMatchObject({ input: { bodyType: "multipart-form-data" } });
  });

  test("one that cannot be read, or holds nothing, is refused", async () => {
    const from = join(folder, "api.yaml");
    const words = ["init", file, ...ENOUGH, "--from", from];
    expect((await runHere(words)).stderr).toContain("--from takes a file or a URL");
    const servers = "servers: [{ url: https://api.example.com/v1 }]";
    await writeFile(from, `openapi: 3.0.0\n${servers}\npaths: { /a: { get: {} } }`);
    const bare = await runHere(["init", file, "--from", from, "--pay-to", PAYEE]);
    expect(bare.stderr).toContain("; the description names https://api.example.com\n");
    await writeFile(from, "openapi: 3.0.0\npaths: { /a: { options: {} } }");
    const { code, stderr } = await runHere(words);
    expect(code).toBe(1);
    expect(stderr).toContain("has no operation that could be sold");
    await expect(stat(file)).rejects.toThrow("ENOENT");
  });
});

test("asks on a terminal, again where the answer is wrong, and takes what it proposes", async () => {
  const answers = ["localhost:3000", "http://localhost:3000", "", "", "nobody", PAYEE, "", "$0.02"];
  // Each answer is typed once its question is there.
  await writeFile(
    join(folder, "type.sh"),
    answers
      .map(
        (answer, index) =>
          `while [ "$(grep -oE '(\\(URL\\)|reach it\\?|networks\\?|is paid\\?|embedded\\)|request cost\\?)' seen | wc -l)" -le ${index} ]; do sleep 0.05; done; echo '${answer}'`,
      )
      .join("\n") + "\nsleep 1\n",
  );
  await writeFile(join(folder, "seen"), "");
  const command = `${process.execPath} ${MAIN} init ${file}`;
  await run("sh", ["-c", `sh type.sh | script -qefc '${command}' seen`], { cwd: folder });
  const { routes } = await expectClean(file);
  expect(routes[0]?.action).toMatchObject({ offers: [{ payTo: PAYEE, amountAtomic: 20_000n }] });
});

test("from a description to a paid request: what it writes serves, and pay buys", async () => {
  await using chain = await startChain();
  // It lends its backend and its facilitator.
  await using other = await startGateway({ chain, unmatched: "free" });
  const buyer = await richBuyer(chain);
  const from = join(folder, "api.yaml");
  await writeFile(from, 'swagger: "2.0"\npaths: { "/echo/{word}": { get: { summary: Echo } } }');
  const words = ["--upstream", other.url, "--pay-to", other.payee, "--from", from];
  expect(
    (await runHere(["init", file, ...words, "--facilitator", other.facilitatorUrl])).code,
  ).toBe(0);

  const text = (await readFile(file, "utf8"))
    .replace("listen: :8402", "listen: 127.0.0.1:0")
    .replace(
      "admin: 127.0.0.1:9402",
      `store: sqlite:${join(folder, "ledger.db")}\nlogging: { level: silent }`,
    );
  const parsed = parseConfig(text, { file, env: {}, readFile: () => "" });
  if (!parsed.ok) throw new Error("the configuration is refused");
  const running = await start(parsed.config, "test");
  try {
    const url = `http://127.0.0.1:${running.addresses.gateway[0]?.port ?? 0}/echo/hello`;
    const before = await chain.balanceOf(other.payee);
    const bought = await runHere(["pay", url, "-y"], { COINSLOT_KEY: buyer.privateKey });
    expect(bought.stderr).toMatch(/^paid 0\.01 USDC/m);
    expect(bought.code).toBe(0);
    expect(JSON.parse(bought.stdout)).toMatchObject({ method: "GET", url: "/echo/hello" });
    expect(await chain.balanceOf(other.payee)).toBe(before + 10_000n);
  } finally {
    await running.close();
  }
});
