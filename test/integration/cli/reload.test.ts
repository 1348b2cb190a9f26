/** `coinslot reload` before a server that keeps the contract of the admin listener, and before ones that do not. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type RequestListener } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { drain, listen } from "../../../src/gateway/listener/listener.ts";
import { runHere } from "./run-here.ts";

let closing: AsyncDisposableStack;

beforeEach(() => {
  closing = new AsyncDisposableStack();
});

afterEach(() => closing.disposeAsync());

async function admin(listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  const { port } = await listen(server, { host: "127.0.0.1", port: 0 });
  closing.defer(() => drain(server, AbortSignal.abort()));
  return `127.0.0.1:${port}`;
}

async function write(text: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "coinslot-reload-"));
  closing.defer(() => rm(folder, { recursive: true }));
  const file = join(folder, "gateway.yaml");
  await writeFile(file, text);
  return file;
}

test("the gateway is found by the file, whatever else is wrong with that", async () => {
  const asked: string[] = [];
  const address = await admin((request, response) => {
    asked.push(`${request.method} ${request.url}`);
    response.end('{"reloaded":true,"routes":3}');
  });
  const file = await write(`admin: ${address}\nupstream: "\${NOT_SET}"\nnonsense: yes\n`);
  const { code, stdout, stderr } = await runHere(["reload", file]);
  expect({ code, stdout, stderr }).toEqual({ code: 0, stdout: "reloaded\n", stderr: "" });
  const { port } = new URL(`http://${address}`);
  const everywhere = await write(`admin: :${port}\n`);
  const json = await runHere(["reload", everywhere, "--json"]);
  expect(JSON.parse(json.stdout)).toEqual({ reloaded: true, routes: 3 });
  expect(asked).toEqual(["POST /-/reload", "POST /-/reload"]);
});

test("a file that is refused is explained with its places, and fails", async () => {
  const problems = [
    {
      file: "/etc/coinslot/gateway.yaml",
      line: 7,
      column: 3,
      severity: "error",
      message: "price must be a price\u001b[2J",
      suggestion: "write $0.01",
    },
    { line: "x", message: 5, severity: "note" },
  ];
  const address = await admin((_, response) => {
    response.writeHead(422).end(JSON.stringify({ reloaded: false, problems }));
  });
  const { code, stdout, stderr } = await runHere(["reload", "--admin", `http://${address}`]);
  expect(code).toBe(1);
  expect(stderr).toContain(
    "/etc/coinslot/gateway.yaml:7:3: error: price must be a price\ufffd[2J\n  write $0.01\n",
  );
  expect(stdout).toBe("refused: the running configuration stays as it is\n");
});

test("one that is in force in part fails, and says so", async () => {
  const problems = [{ severity: "error", message: "only a part of it is in force: no worker" }];
  const address = await admin((_, response) => {
    response.writeHead(500).end(JSON.stringify({ reloaded: true, inPart: true, problems }));
  });
  const { code, stdout, stderr } = await runHere(["reload", "--admin", `http://${address}`]);
  expect([code, stdout]).toEqual([
    1,
    "reloaded in part: some of what serves goes by the configuration before\n",
  ]);
  expect(stderr).toContain("error: only a part of it is in force: no worker");
});

test.each([
  ["another server", 404, "no", /answers 404, it is no coinslot that can reload/],
  ["one that says yes and means no", 500, '{"reloaded":true}', /^$/],
  ["one that says nothing", 200, "<html>", /answers 200, which is no verdict on a reload/],
  ["one without end", 200, `"${"x".repeat(9_000_000)}"`, /the answer is too large/],
])("%s is not believed", async (_, status, body, message) => {
  const address = await admin((request, response) => response.writeHead(status).end(body));
  const { code, stderr } = await runHere(["reload", "--admin", `http://${address}`]);
  expect(stderr).toMatch(message);
  expect(code).toBe(1);
});

test("nobody who listens, and nothing that says where, is told as such", async () => {
  const gone = await runHere(["reload", "--admin", "http://127.0.0.1:1"]);
  expect(gone.stderr).toContain("no gateway answers: 127.0.0.1:1: nothing listens there");
  const none = await runHere(["reload", await write("upstream: http://localhost\n")]);
  expect(none.stderr).toContain("names no admin listener");
  expect([gone.code, none.code]).toEqual([1, 1]);
  expect((await runHere(["reload"])).code).toBe(2);
  expect((await runHere(["reload", "--admin", "localhost:9402"])).code).toBe(2);
});
