/**
 * Clients that upload to a priced path: the official ones, who pay for it, over HTTP/1.1 and HTTP/2; and those that people
 * have at hand, who have to get the price, whole. Each throws where a transport error is all that it learns.
 */
import { execFile } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { connect, type ClientHttp2Session } from "node:http2";
import { join } from "node:path";
import { promisify } from "node:util";
import { wrapAxiosWithPayment, x402Client as AxiosX402Client } from "@x402/axios";
import { ExactEvmScheme } from "@x402/evm/exact/client";
import { wrapFetchWithPayment, x402Client } from "@x402/fetch";
import { create } from "axios";
import { Agent, fetch as undiciFetch } from "undici";
import { DEBIAN_PYTHON } from "../support/debian-python.ts";
import { evmClients } from "../support/evm-clients.ts";
import { freshAccount } from "../support/payer.ts";

const run = promisify(execFile);
const MIB = 1024 * 1024;
const PIECE = Buffer.alloc(64 * 1024, "u");

export interface UploadClient {
  readonly name: string;
  /** It talks to the listener with TLS. */
  readonly isTls: boolean;
  /** What of the system it needs, as its Debian package, and how that is asked for; null: nothing. */
  readonly needs: { readonly package: string; readonly probe: readonly string[] } | null;
  readonly upload: (url: string, mib: number, folder: string) => Promise<void>;
}

/** Prints the status, or fails. */
const URLLIB = `
import ssl, sys, urllib.error, urllib.request
body = open(sys.argv[2], "rb").read()
try:
    context = ssl._create_unverified_context()
    urllib.request.urlopen(urllib.request.Request(sys.argv[1], data=body), context=context)
except urllib.error.HTTPError as error:
    print(error.code, b"accepts" in error.read())
`;

/** The same. */
const REQUESTS = `
import sys, requests, urllib3
urllib3.disable_warnings()
with open(sys.argv[2], "rb") as body:
    answer = requests.post(sys.argv[1], data=body, verify=False)
print(answer.status_code, b"accepts" in answer.content)
`;

const CURL = { package: "curl", probe: ["curl", "--version"] } as const;
const URLLIB_NEEDS = {
  package: "python3",
  probe: [DEBIAN_PYTHON, "-c", "import urllib.request"],
} as const;
const REQUESTS_NEEDS = {
  package: "python3-requests",
  probe: [DEBIAN_PYTHON, "-c", "import requests"],
} as const;

const official = Object.entries(evmClients).map(([name, { buy }]): UploadClient => ({
  name,
  isTls: false,
  needs: null,
  upload: async (url, mib) => {
    const { status, body } = await buy(url, freshAccount(), { data: "u".repeat(mib * MIB) });
    if (status !== 200 || Object(body).bytes < mib * MIB) throw new Error(`answer ${status}`);
  },
}));

export const UPLOAD_CLIENTS: readonly UploadClient[] = [
  ...official,
  ...[false, true].flatMap((isTls) => [
    python("Python's urllib", isTls, URLLIB, URLLIB_NEEDS),
    python("Python's requests", isTls, REQUESTS, REQUESTS_NEEDS),
  ]),
  curl("curl", false, ["--http1.1"]),
  curl("curl without Expect", false, ["--http1.1", "-H", "Expect:"]),
  curl("curl, chunked", false, ["--http1.1", "-H", "Expect:", "-H", "Transfer-Encoding: chunked"]),
  curl("curl, TLS", true, ["--http1.1", "-H", "Expect:"]),
  curl("curl, HTTP/2", true, ["--http2", "-H", "Expect:"]),
  { name: "node:http2", isTls: true, needs: null, upload: overHttp2 },
  { name: "node:http2, at once", isTls: true, needs: null, upload: atOnceOverHttp2() },
  { name: "@x402/fetch 2.27.0 on undici 8, HTTP/2", isTls: true, needs: null, upload: byUndici() },
  { name: "@x402/axios 2.11.0, HTTP/2", isTls: true, needs: null, upload: byAxios() },
];

function python(
  name: string,
  isTls: boolean,
  program: string,
  needs: UploadClient["needs"],
): UploadClient {
  const upload: UploadClient["upload"] = async (url, mib, folder) => {
    const file = await bodyOf(mib, folder);
    const { stdout } = await run(DEBIAN_PYTHON, ["-c", program, url, file]);
    if (stdout.trim() !== "402 True") throw new Error(`answer ${stdout}`);
  };
  return { name: `${name}${isTls ? ", TLS" : ""}`, isTls, needs, upload };
}

function curl(name: string, isTls: boolean, options: readonly string[]): UploadClient {
  return {
    name,
    isTls,
    needs: CURL,
    upload: async (url, mib, folder) => {
      const body = ["--data-binary", `@${await bodyOf(mib, folder)}`];
      const told = ["-skS", "-o", join(folder, "answer"), "-w", "%{http_code} %{size_download}"];
      const { stdout } = await run("curl", [...told, ...options, ...body, url]);
      if (!/^402 [1-9]\d{2,}$/.test(stdout)) throw new Error(`answer ${stdout}`);
    },
  };
}

/** In pieces: of what is written at once node's client refuses each answer while more than 10 MB of it wait. */
async function overHttp2(url: string, mib: number): Promise<void> {
  const { origin, pathname } = new URL(url);
  const session = connect(origin, { rejectUnauthorized: false });
  const stream = session.request({ ":method": "POST", ":path": pathname });
  const closed = once(stream, "close");
  let status: unknown;
  stream.on("response", (head) => ({ ":status": status } = head)).resume();
  for (let sent = 0; sent < mib * MIB && !stream.closed; sent += PIECE.length) {
    if (!stream.write(PIECE)) await Promise.race([once(stream, "drain"), closed]);
  }
  stream.end();
  await closed;
  session.close();
  if (status !== 402 || !stream.readableEnded) throw new Error(`answer ${String(status)}`);
}

/** On one connection for all uploads to a place, as programs have it. */
function atOnceOverHttp2(): UploadClient["upload"] {
  const sessions = new Map<string, ClientHttp2Session>();
  return async (url, mib) => {
    const { origin, pathname } = new URL(url);
    const kept = sessions.get(origin);
    const session =
      kept === undefined || kept.closed ? connect(origin, { rejectUnauthorized: false }) : kept;
    session.unref();
    sessions.set(origin, session);
    const body = Buffer.alloc(mib * MIB, "u");
    const head = { ":method": "POST", ":path": pathname, "content-length": body.length };
    const stream = session.request(head);
    let status: unknown;
    stream.on("response", (told) => ({ ":status": status } = told)).resume();
    stream.end(body);
    await once(stream, "close");
    if (status !== 402 || !stream.readableEnded) throw new Error(`answer ${String(status)}`);
  };
}

/** What `fetch` is in Nodes to come, which offers HTTP/2 by itself. */
function byUndici(): UploadClient["upload"] {
  const dispatcher = new Agent({ allowH2: true, connect: { rejectUnauthorized: false } });
  const overHttp2: typeof fetch = async (request) => {
    const { url, method, headers, body } = new Request(request);
    const bytes = body === null ? null : Buffer.from(await new Response(body).arrayBuffer());
    const sent = { method, headers: Object.fromEntries(headers), body: bytes, dispatcher };
    const told = await undiciFetch(url, sent);
    return new Response(await told.bytes(), {
      status: told.status,
      headers: Object.fromEntries(told.headers),
    });
  };
  return async (url, mib) => {
    const client = new x402Client().register(
      "eip155:*",
      new ExactEvmScheme(freshAccount().account),
    );
    const body = "u".repeat(mib * MIB);
    const response = await wrapFetchWithPayment(overHttp2, client)(url, { method: "POST", body });
    if (response.status !== 200) throw new Error(`answer ${response.status}`);
    if (Object(await response.json()).bytes !== mib * MIB) throw new Error("not all of it came");
  };
}

function byAxios(): UploadClient["upload"] {
  return async (url, mib) => {
    const { account } = freshAccount();
    const client = new AxiosX402Client().register("eip155:*", new ExactEvmScheme(account));
    const plain = create({ httpVersion: 2, http2Options: { rejectUnauthorized: false } });
    const { status, data } = await wrapAxiosWithPayment(plain, client).post(
      url,
      Buffer.alloc(mib * MIB, "u"),
    );
    if (status !== 200 || data.bytes !== mib * MIB) throw new Error(`answer ${status}`);
  };
}

async function bodyOf(mib: number, folder: string): Promise<string> {
  const file = join(folder, `body-${mib}`);
  await writeFile(file, "u".repeat(mib * MIB), { flag: "wx" }).catch(() => undefined);
  return file;
}

/** Null where it is there; else what to install. */
export async function missing({ needs }: Pick<UploadClient, "needs">): Promise<string | null> {
  if (needs === null) return null;
  const [program = "", ...words] = needs.probe;
  return run(program, words).then(
    () => null,
    () => `not installed: apt-get install -y ${needs.package}`,
  );
}
