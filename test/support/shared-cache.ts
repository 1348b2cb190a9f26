/** Shared caches as operators and CDNs put them before a gateway: nginx and Varnish as Debian packages them. */
import { spawnSync } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startNginx } from "../bench/contenders/nginx.ts";
import { startCommand, type Running } from "../bench/process.ts";
import { freePort } from "./free-port.ts";

/** Those that vary by nothing are as CDNs are, which know `Vary: Accept-Encoding` at most. */
export const SHARED_CACHES = [
  { name: "nginx", needs: "nginx", varies: true },
  { name: "nginx without Vary", needs: "nginx", varies: false },
  { name: "Varnish", needs: "varnishd", varies: true },
  { name: "Varnish without Vary", needs: "varnishd", varies: false },
] as const;

export type SharedCache = (typeof SHARED_CACHES)[number];

/** Whether the command is there that Debian's nginx-light or varnish brings. */
export function hasCache({ needs }: SharedCache): boolean {
  return spawnSync(needs, ["-V"]).error === undefined;
}

/** Says of each answer in `X-Cache` whether it is a `HIT`, and to the origin in `X-Forwarded-For` who asks. */
export async function startCache(
  { needs, varies }: SharedCache,
  origin: URL,
): Promise<AsyncDisposable & { readonly url: string }> {
  const folder = await mkdtemp(join(tmpdir(), "coinslot-cache-"));
  const running =
    needs === "nginx"
      ? await openNginx(folder, origin, varies)
      : await openVarnish(folder, origin, varies);
  return {
    url: running.url,
    async [Symbol.asyncDispose]() {
      await running.stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

function openNginx(folder: string, origin: URL, varies: boolean): Promise<Running> {
  return startNginx(folder, {
    http: `proxy_cache_path ${folder}/cache keys_zone=all:1m; large_client_header_buffers 4 32k;`,
    server: `location / {
      proxy_pass ${origin.origin};
      proxy_cache all;
      proxy_cache_valid any 10m;
      ${varies ? "" : "proxy_ignore_headers Vary;"}
      proxy_set_header X-Forwarded-For $remote_addr;
      add_header X-Cache $upstream_cache_status always;
    }`,
  });
}

async function openVarnish(folder: string, origin: URL, varies: boolean): Promise<Running> {
  const port = await freePort();
  const file = join(folder, "cache.vcl");
  await writeFile(
    file,
    `vcl 4.1;
    backend default { .host = "${origin.hostname}"; .port = "${origin.port}"; }
    sub vcl_backend_response { ${varies ? "" : "unset beresp.http.Vary;"} }
    sub vcl_deliver { if (obj.hits > 0) { set resp.http.X-Cache = "HIT"; } else { set resp.http.X-Cache = "MISS"; } }
    `,
  );
  const sizes = [
    "-p",
    "http_req_hdr_len=32k",
    "-p",
    "http_req_size=64k",
    "-p",
    "workspace_client=256k",
  ];
  return startCommand({
    command: "varnishd",
    args: ["-F", "-j", "none", "-n", folder, "-f", file, "-a", `127.0.0.1:${port}`, ...sizes],
    serves: `http://127.0.0.1:${port}`,
  });
}
