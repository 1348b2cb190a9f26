/** Whether each target of each upstream can be reached, trusted and asked, as the gateway would. */
import type { Config, Upstream } from "../../config/config.ts";
import { certificateFault, validityFinding } from "./certificates.ts";
import { describeFailure, fail, ok, warn, type Check, type DoctorFinding } from "./finding.ts";
import { ask, readCertificate, type HttpAnswer, type TlsSettings } from "./http-probe.ts";

export function upstreamChecks({ upstreams }: Pick<Config, "upstreams">): readonly Check[] {
  return upstreams.flatMap((upstream) =>
    upstream.targets.map(({ url }): Check => {
      const name = `${upstream.name} ${new URL(url).host}`;
      return {
        name,
        section: "upstreams",
        run: async (signal) => {
          const tls = tlsOf(upstream);
          const shown =
            new URL(url).protocol === "https:"
              ? await checkTls(name, { upstream, url }, signal)
              : [];
          if (shown.some(({ status }) => status === "fail")) return shown;
          const path = upstream.health?.path ?? "/";
          const method = upstream.health === null ? "HEAD" : "GET";
          const host = upstream.host.kind === "name" ? { host: upstream.host.name } : {};
          const headers = { "user-agent": "coinslot doctor", ...host };
          try {
            const answer = await ask({ url: url + path, method, headers, tls }, signal);
            return [...shown, judge(name, upstream, answer)];
          } catch (cause) {
            return [...shown, unreached(name, cause)];
          }
        },
      };
    }),
  );
}

interface Target {
  readonly upstream: Upstream;
  readonly url: string;
}

async function checkTls(
  subject: string,
  { upstream, url }: Target,
  signal: AbortSignal,
): Promise<readonly DoctorFinding[]> {
  const wantsH2 = upstream.protocol === "h2";
  const protocols = wantsH2 ? ["h2", "http/1.1"] : ["http/1.1"];
  try {
    const shown = await readCertificate({ url, tls: tlsOf(upstream) }, protocols, signal);
    const fault = certificateFault(subject, shown);
    if (fault !== null) return [fault];
    const findings = [validityFinding(subject, shown, Date.now())];
    if (wantsH2 && shown.protocol !== "h2") {
      const fix = "remove protocol: h2, or switch HTTP/2 on at the target";
      findings.push(warn(subject, "does not offer HTTP/2; HTTP/1.1 is used", fix));
    }
    return findings;
  } catch (cause) {
    return [unreached(subject, cause)];
  }
}

function unreached(subject: string, cause: unknown): DoctorFinding {
  const fix = "start it, or correct its URL; paid requests to it are refused before money is taken";
  return fail(subject, describeFailure(cause), fix);
}

function judge(subject: string, { health }: Upstream, { status, ms }: HttpAnswer): DoctorFinding {
  const took = `in ${Math.round(ms)} ms`;
  if (health === null) {
    if (status < 500) return ok(subject, `answers HTTP (${status} to HEAD /) ${took}`);
    const fix = "look at the backend's log; with health.path the gateway watches it";
    return warn(subject, `answers ${status} to HEAD /`, fix);
  }
  if (status < 400) return ok(subject, `is healthy: ${status} to GET ${health.path} ${took}`);
  const fix =
    "the gateway takes such a target for down: correct health.path, or see to the backend";
  return fail(subject, `answers ${status} to its health path ${health.path}`, fix);
}

/** How a target of it is trusted, and what it is shown. */
export function tlsOf({ tls }: Upstream): TlsSettings {
  return {
    ca: tls.ca ?? undefined,
    serverName: tls.serverName ?? undefined,
    cert: tls.cert ?? undefined,
    key: tls.key?.reveal(),
  };
}
