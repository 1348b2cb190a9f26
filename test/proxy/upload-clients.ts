/**
 * Clients that upload to a priced path: the official ones, who pay for it, over HTTP/1.1; and those that people have at
 * hand, who have to get the price, whole. Each throws where a transport error is all that it learns.
 */
import { execFile } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { connect } from "node:http2";
import { join } from "node:path";
import { promisify } from "node:util";
import { evmClients } from "../support/evm-clients.ts";
import { freshAccount } from "../support/payer.ts";

const run = promisify(execFile);
const MIB = 1024 * 1024;
const PIECE = Buffer.alloc(64 * 1024, "u");

export interface UploadClient {
  readonly name: string;
  /** It talks to the listener with TLS. */
  readonly isTls: boolean;
  /** The program of the system that it needs, as its Debian package; null: none. */
  readonly needs: string | null;
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
  ...[false, true].map((isTls): UploadClient => {
    const name = `Python's urllib${isTls ? ", TLS" : ""}`;
    const upload: UploadClient["upload"] = async (url, mib, folder) => {
      const file = await bodyOf(mib, folder);
      const { stdout } = await run("python3", ["-c", URLLIB, url, file]);
      if (stdout.trim() !== "402 True") throw new Error(`answer ${stdout}`);
    };
    return { name, isTls, needs: "python3", upload };
  }),
  curl("curl", false, ["--http1.1"]),
  curl("curl without Expect", false, ["--http1.1", "-H", "Expect:"]),
  curl("curl, chunked", false, ["--http1.1", "-H", "Expect:", "-H", "Transfer-Encoding: chunked"]),
  curl("curl, TLS", true, ["--http1.1", "-H", "Expect:"]),
  curl("curl, HTTP/2", true, ["--http2", "-H", "Expect:"]),
  { name: "node:http2", isTls: true, needs: null, upload: overHttp2 },
];

function curl(name: string, isTls: boolean, options: readonly string[]): UploadClient {
  return {
    name,
    isTls,
    needs: "curl",
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

async function bodyOf(mib: number, folder: string): Promise<string> {
  const file = join(folder, `body-${mib}`);
  await writeFile(file, "u".repeat(mib * MIB), { flag: "wx" }).catch(() => undefined);
  return file;
}

/** Null where it is there; else what to install. */
export async function missing({ needs }: UploadClient): Promise<string | null> {
  if (needs === null) return null;
  return run(needs, ["--version"]).then(
    () => null,
    () => `not installed: apt-get install -y ${needs}`,
  );
}
