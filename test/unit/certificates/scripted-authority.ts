/** An authority on loopback that takes every order and goes no further unless it has a certificate for it, and says of accounts what a test wants. */
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { FIRST } from "../../support/listener-tls.ts";

export interface Said {
  readonly status: number;
  readonly body: object;
}

export interface Scripted {
  /** What it says to who orders. */
  readonly order?: Said;
  /** What it says to who shows a key, which is the n-th that it sees, from 0. */
  readonly account?: (key: number) => Said;
  /** What it gives, in PEM, to who asks for the order that there is. */
  readonly cert?: string;
  /** What it says of an account that there is. */
  readonly known?: Said;
}

const INVALID: Said = { status: 201, body: { status: "invalid" } };

export async function scriptedAuthority({
  order = INVALID,
  account = () => INVALID,
  known = INVALID,
  cert,
}: Scripted = {}) {
  const asked: string[] = [];
  const keys: string[] = [];
  const server = createServer({ cert: FIRST.cert, key: FIRST.key }, (request, response) => {
    const { port } = server.address() as AddressInfo;
    const here = `https://127.0.0.1:${port}`;
    const { url = "" } = request;
    asked.push(url);
    response.setHeader("Replay-Nonce", "nonce");
    const say = ({ status, body }: Said): void => {
      response.writeHead(status, { Location: `${here}${url}/1` });
      response.end(JSON.stringify(body));
    };
    if (url === "/dir") {
      const [newNonce, newAccount, newOrder] = ["nonce", "account", "order"].map(
        (name) => `${here}/${name}`,
      );
      response.end(JSON.stringify({ newNonce, newAccount, newOrder }));
    } else if (url === "/order") say(order);
    else if (url === "/order/1" && cert !== undefined)
      say({ status: 200, body: { status: "valid", certificate: `${here}/cert` } });
    else if (url === "/cert") response.end(cert);
    else if (url === "/account/1") say(known);
    else if (url === "/account") {
      const told = async (): Promise<void> => {
        const key = await shownKey(request);
        if (!keys.includes(key)) keys.push(key);
        say(account(keys.indexOf(key)));
      };
      void told();
    } else response.end("{}");
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const folder = await mkdtemp(join(tmpdir(), "coinslot-certificates-"));
  onTestFinished(async () => {
    server.closeAllConnections();
    server.close();
    await rm(folder, { recursive: true });
  });
  const ca = join(folder, "ca.pem");
  await writeFile(ca, FIRST.cert);
  return {
    directory: `https://127.0.0.1:${(server.address() as AddressInfo).port}/dir`,
    ca,
    /** Paths, in their order. */
    asked,
    /** Each key that it was shown, once. */
    keys,
  };
}

/** The key in the head of what is signed. */
async function shownKey(request: IncomingMessage): Promise<string> {
  let text = "";
  for await (const chunk of request.setEncoding("utf8")) text += String(chunk);
  const { protected: head = "" } = Object(JSON.parse(text));
  const { jwk } = Object(JSON.parse(Buffer.from(String(head), "base64url").toString()));
  return JSON.stringify(jwk);
}
