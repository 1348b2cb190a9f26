/** nginx as a measure: one worker, no access log, connections kept for as long as the bench runs. */
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { freePort } from "../../support/free-port.ts";
import { startCommand, type Running } from "../process.ts";

export const NGINX_MISSING =
  "nginx is not installed, so its rows are left out: apt-get install -y nginx-light";

/** `nginx 1.22.1`, or null where it is not installed. */
export function nginxVersion(): string | null {
  const { stderr, error } = spawnSync("nginx", ["-v"], { encoding: "utf8" });
  return error === undefined ? (/nginx\/[\d.]+/.exec(stderr)?.[0].replace("/", " ") ?? null) : null;
}

/** `server` is what stands in the `server` block, `http` what stands beside it. */
export async function startNginx(
  folder: string,
  { server, http = "" }: { readonly server: string; readonly http?: string },
): Promise<Running> {
  const port = await freePort();
  // Its worker would otherwise be somebody who may not write into the folder.
  const user = process.getuid?.() === 0 ? "user root;" : "";
  const file = join(folder, "nginx.conf");
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(
    (name) => `${name}_temp_path ${folder}/${name};`,
  );
  writeFileSync(
    file,
    `${user} daemon off; worker_processes 1; pid ${folder}/nginx.pid; error_log stderr error;
    events { worker_connections 1024; }
    http {
      access_log off; keepalive_requests 100000000; ${temporary.join(" ")}
      ${http}
      server { listen 127.0.0.1:${port}; ${server} }
    }`,
  );
  return startCommand({
    command: "nginx",
    args: ["-p", folder, "-c", file, "-e", "stderr"],
    serves: `http://127.0.0.1:${port}`,
  });
}
