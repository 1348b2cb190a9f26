/**
 * Clients that download what costs, as they are in the field: each follows redirects as it does by itself, and tries
 * again in its own way what was cut.
 */
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { wrapAxiosWithPayment, x402Client as AxiosX402Client } from "@x402/axios";
import { ExactEvmScheme } from "@x402/evm/exact/client";
import { wrapFetchWithPayment, x402Client } from "@x402/fetch";
import { create, type AxiosInstance } from "axios";
import { withPaymentInterceptor } from "x402-axios";
import { wrapFetchWithPayment as wrapFetchOfVersion1 } from "x402-fetch";
import { sign } from "../support/buyer.ts";
import { DEBIAN_PYTHON } from "../support/debian-python.ts";
import type { FreshAccount } from "../support/payer.ts";

const run = promisify(execFile);
/** Times that a client tries again. */
const TRIES = 5;

export interface Download {
  readonly url: string;
  readonly buyer: FreshAccount;
}

export interface DownloadClient {
  readonly name: string;
  /** What has to be there, and how it is asked for; null: nothing but this project. */
  readonly needs: { readonly package: string; readonly probe: readonly string[] } | null;
  /** Downloads until it has all, or gives up; resolves with the hash of what it has at last. */
  readonly download: (download: Download) => Promise<string>;
}

/** Asks again from the beginning, as a program does that wants a file: a new payment is signed each time. */
const again = async (ask: () => Promise<Uint8Array | string>): Promise<string> => {
  for (let attempt = 0; attempt < TRIES; attempt += 1) {
    try {
      const told = await ask();
      return typeof told === "string" ? told : hashOf(told);
    } catch {
      // Cut.
    }
  }
  return "never whole";
};

const byFetch =
  (paying: (buyer: FreshAccount) => typeof fetch): DownloadClient["download"] =>
  ({ url, buyer }) => {
    const pay = paying(buyer);
    return again(async () => {
      const response = await pay(url);
      return response.status === 200 ? response.bytes() : `answered ${response.status}`;
    });
  };

const byAxios =
  (paying: (buyer: FreshAccount) => AxiosInstance): DownloadClient["download"] =>
  ({ url, buyer }) => {
    const pay = paying(buyer);
    return again(async () => {
      const answer = await pay.get(url, { responseType: "arraybuffer" });
      return answer.status === 200 ? new Uint8Array(answer.data) : `answered ${answer.status}`;
    });
  };

/** x402-axios looks for a parsed body, which `responseType` takes from it: this is how a program gives that back. */
function withReadable402(): AxiosInstance {
  const transformResponse = (data: Buffer, _: unknown, status?: number): unknown =>
    status === 402 ? JSON.parse(data.toString()) : data;
  return create({ transformResponse });
}

/** A program of the system that is given a payment which was signed for it, since it has no client of the protocol. */
const byProgram =
  (resume: (header: string, url: string, file: string) => Promise<unknown>) =>
  async ({ url, buyer }: Download): Promise<string> => {
    const folder = await mkdtemp(join(tmpdir(), "coinslot-goods-"));
    const file = join(folder, "part");
    try {
      await writeFile(file, "");
      await resume(await sign(buyer, url), url, file);
      return hashOf(await readFile(file));
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  };

/** Resumes with `Range`, and with the payment that it has. */
const curl = byProgram(async (header, url, file) => {
  const words = ["-sfL", "-C", "-", "-o", file, "-H", `X-PAYMENT: ${header}`, url];
  for (let attempt = 0; attempt < TRIES; attempt += 1) {
    try {
      await run("curl", words);
      return;
    } catch {
      // Cut.
    }
  }
});

/** Reads the whole file again where it is not all there. */
const URLLIB = `
import http.client, sys, urllib.request
header, url, file, tries = sys.argv[1:]
for attempt in range(int(tries)):
    try:
        request = urllib.request.Request(url, headers={"X-PAYMENT": header})
        body = urllib.request.urlopen(request).read()
        open(file, "wb").write(body)
        break
    except (http.client.HTTPException, ConnectionError):
        pass
`;

/** Goes on where it was cut, with `Range`. This version of requests takes a short body for a whole one: who uses it counts. */
const REQUESTS = `
import os, sys, requests
from requests.adapters import HTTPAdapter
header, url, file, tries = sys.argv[1:]
session = requests.Session()
session.mount("http://", HTTPAdapter(max_retries=int(tries)))
session.headers["X-PAYMENT"] = header
for attempt in range(int(tries)):
    have = os.path.getsize(file)
    extra = {"Range": f"bytes={have}-"} if have else {}
    try:
        with session.get(url, headers=extra, stream=True) as answer:
            answer.raise_for_status()
            total = have + int(answer.headers["Content-Length"])
            with open(file, "ab" if answer.status_code == 206 else "wb") as part:
                for piece in answer.iter_content(65536):
                    part.write(piece)
    except requests.exceptions.HTTPError:
        raise
    except (requests.exceptions.ConnectionError, requests.exceptions.ChunkedEncodingError):
        continue
    if os.path.getsize(file) == total:
        break
`;

const python = (program: string): DownloadClient["download"] =>
  byProgram((...words) => run(DEBIAN_PYTHON, ["-c", program, ...words, String(TRIES)]));

export const DOWNLOAD_CLIENTS: readonly DownloadClient[] = [
  {
    name: "x402-fetch 1.2.0",
    needs: null,
    download: byFetch(({ account }) => wrapFetchOfVersion1(fetch, account) as typeof fetch),
  },
  {
    name: "x402-axios 0.7.2",
    needs: null,
    download: byAxios(({ account }) => withPaymentInterceptor(withReadable402(), account)),
  },
  {
    name: "@x402/fetch 2.27.0",
    needs: null,
    download: byFetch(({ account }) => {
      const client = new x402Client().register("eip155:*", new ExactEvmScheme(account));
      return wrapFetchWithPayment(fetch, client);
    }),
  },
  {
    name: "@x402/axios 2.11.0",
    needs: null,
    download: byAxios(({ account }) => {
      const client = new AxiosX402Client().register("eip155:*", new ExactEvmScheme(account));
      return wrapAxiosWithPayment(create(), client);
    }),
  },
  {
    name: "curl",
    needs: { package: "curl", probe: ["curl", "--version"] },
    download: curl,
  },
  {
    name: "Python's urllib",
    needs: { package: "python3", probe: [DEBIAN_PYTHON, "-c", "import urllib.request"] },
    download: python(URLLIB),
  },
  {
    name: "Python's requests",
    needs: { package: "python3-requests", probe: [DEBIAN_PYTHON, "-c", "import requests"] },
    download: python(REQUESTS),
  },
];

export function hashOf(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}
