/** What an authority may answer, and what of it is believed. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import type { RequestListener } from "node:http";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { once } from "node:events";
import { expect, onTestFinished, test } from "vitest";
import { AuthorityFault, openAuthority } from "../../../src/certificates/authority.ts";
import { FIRST } from "../../support/listener-tls.ts";

/** What is thrown where an account is made with an authority that answers so. */
async function faultOf(listener: RequestListener): Promise<AuthorityFault> {
  const server = createServer({ cert: FIRST.cert, key: FIRST.key }, (request, response) => {
    const { port } = server.address() as AddressInfo;
    const here = `https://127.0.0.1:${port}`;
    if (request.url === "/dir") {
      const directory = { newNonce: `${here}/nonce`, newAccount: `${here}/account` };
      response.end(JSON.stringify(directory));
    } else if (request.url === "/nonce") {
      response.setHeader("Replay-Nonce", "nonce");
      response.end();
    } else listener(request, response);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const folder = await mkdtemp(join(tmpdir(), "coinslot-authority-"));
  onTestFinished(async () => {
    server.closeAllConnections();
    server.close();
    await rm(folder, { recursive: true });
  });
  const ca = join(folder, "ca.pem");
  await writeFile(ca, FIRST.cert);
  const authority = await openAuthority({
    directory: `https://127.0.0.1:${(server.address() as AddressInfo).port}/dir`,
    ca,
    accountKey: FIRST.key,
    signal: new AbortController().signal,
  });
  onTestFinished(() => authority.close());
  const cause: unknown = await authority.client.createAccount({}).catch((error: unknown) => error);
  if (!(cause instanceof AuthorityFault))
    throw new Error(`no fault of the authority: ${String(cause)}`);
  return cause;
}

test("its words are told without what a terminal would obey, and cut", async () => {
  const fault = await faultOf((_, response) => {
    response.statusCode = 403;
    const detail = `no \u001b[31mred\n${"x".repeat(10_000)}`;
    response.end(JSON.stringify({ type: "urn:ietf:params:acme:error:unauthorized", detail }));
  });
  expect(fault.message).toMatch(/^unauthorized: no \ufffd\[31mred\ufffdx{300,400}…$/);
  expect(fault).toMatchObject({ isOutage: false, askedMs: undefined });
});

test("it may ask to wait", async () => {
  const fault = await faultOf((_, response) => {
    response.writeHead(429, { "Retry-After": "7200" });
    response.end(
      JSON.stringify({ type: "urn:ietf:params:acme:error:rateLimited", detail: "many" }),
    );
  });
  expect(fault).toMatchObject({ message: "rateLimited: many", askedMs: 7_200_000 });
});

test("an answer without an end is given up", async () => {
  const fault = await faultOf((_, response) => {
    const more = (): void => {
      while (response.write("x".repeat(65_536)));
    };
    response.on("drain", more);
    more();
  });
  expect(fault).toMatchObject({ message: "its answer is too long", isOutage: true });
});

test("it leads nobody elsewhere, and to nothing without TLS", async () => {
  let asked = 0;
  const fault = await faultOf((_, response) => {
    asked += 1;
    response.writeHead(307, { Location: "/account" });
    response.end();
  });
  expect(fault.message).toBe("HTTP 307");
  expect(asked).toBe(1);
});

test("a directory without TLS is not asked", async () => {
  const authority = await openAuthority({
    directory: "http://127.0.0.1:1/dir",
    ca: null,
    accountKey: FIRST.key,
    signal: new AbortController().signal,
  });
  const answer = authority.client.createAccount({});
  await expect(answer).rejects.toThrow("it names a URL that is not https");
  await authority.close();
});
