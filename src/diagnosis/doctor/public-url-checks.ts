/**
 * Whether buyers who go to the public URL find this gateway, with this file, and nothing on the way takes away
 * what a payment needs: the 402 itself, the header with the payment, and answers that no cache keeps.
 */
import { lookup } from "node:dns/promises";
import { sitesOf, type Config, type Site } from "../../config/config.ts";
import { PAYMENT_HEADERS, PAYMENT_REQUIRED_HEADER, RECEIPT_HEADERS } from "../../x402/header.ts";
import { X402_VERSION, X402_VERSION_2, type X402Version } from "../../x402/x402.ts";
import { DryGateway, requestFor } from "../dry-gateway.ts";
import { quoteHeader } from "../route-quotes.ts";
import { certificateFault, validityFinding } from "./certificates.ts";
import {
  codeOf,
  describeFailure,
  fail,
  ok,
  warn,
  type Check,
  type DoctorFinding,
} from "./finding.ts";
import { ask, readCertificate, type HttpAnswer } from "./http-probe.ts";
import { firstDifference, readOffers } from "./same-offers.ts";
import { isInUse } from "./store-checks.ts";

const SUBJECT = "publicUrl";
/** Well-formed as a header, and no payment: the gateway answers 400 to it, and takes nothing. */
const NO_PAYMENT = "Y29pbnNsb3QgZG9jdG9y";

export function publicUrlChecks(config: Config): readonly Check[] {
  return sitesOf(config).flatMap(siteChecks);
}

function siteChecks(config: Site<Config>): readonly Check[] {
  const { publicUrl } = config;
  if (publicUrl === null || config.routes.length === 0) return [];
  const run: Check["run"] = async (signal) => {
    const { hostname, protocol } = new URL(publicUrl);
    const name = hostname.replace(/^\[|\]$/g, "");
    try {
      await lookup(name);
    } catch (cause) {
      const fix = "make the DNS record, or correct publicUrl: no buyer finds this gateway now";
      return [fail(SUBJECT, `${name} ${describeFailure(cause)}`, fix)];
    }
    const shown = protocol === "https:" ? await checkCertificate(publicUrl, signal) : [];
    if (shown.some(({ status }) => status === "fail")) return shown;
    return [...shown, ...(await checkAnswers(config, publicUrl, signal))];
  };
  return [{ name: new URL(publicUrl).host, section: "public URL", run }];
}

async function checkCertificate(
  url: string,
  signal: AbortSignal,
): Promise<readonly DoctorFinding[]> {
  try {
    const shown = await readCertificate({ url }, ["http/1.1"], signal);
    return [certificateFault(SUBJECT, shown) ?? validityFinding(SUBJECT, shown, Date.now())];
  } catch (cause) {
    return [fail(SUBJECT, describeFailure(cause), "open the port, or correct publicUrl")];
  }
}

/** A request to a priced route, and what this file answers to it. */
interface Sample {
  readonly key: string;
  readonly method: string;
  readonly target: string;
  readonly url: string;
}

async function checkAnswers(
  config: Config,
  publicUrl: string,
  signal: AbortSignal,
): Promise<readonly DoctorFinding[]> {
  const dry = new DryGateway(config);
  const sample = sampleOf(config, dry, publicUrl);
  if (sample === undefined) return [ok(SUBJECT, "resolves; no route has a price to compare")];
  let answer: HttpAnswer;
  try {
    answer = await ask({ url: sample.url, method: sample.method }, signal);
  } catch (cause) {
    return [await unreached(config, cause)];
  }
  const own = judgeOffer(dry, sample, answer);
  if (own.status === "fail") return [own];
  const { v1, v2 } = config.protocol;
  const checked = await Promise.all([
    v1 ? checkPaymentHeader(sample, X402_VERSION, signal) : [],
    v2 ? checkPaymentHeader(sample, X402_VERSION_2, signal) : [],
    config.cors === "off" ? [] : checkPreflight(sample, signal),
  ]);
  return [own, judgeCaching(answer), ...checked.flat()];
}

/** A route without parameters if there is one, else with a name in their place. */
function sampleOf(config: Config, dry: DryGateway, publicUrl: string): Sample | undefined {
  const candidates = config.routes
    .filter(({ action, tool }) => action.kind === "priced" && tool === undefined)
    .map((route) => {
      const isStatic = route.segments.every(({ kind }) => kind === "static");
      return { key: route.key, ...requestFor(route), isStatic };
    })
    .toSorted((left, right) => Number(right.isStatic) - Number(left.isStatic));
  const found = candidates.find(({ method, target }) => dry.accepts(method, target).length > 0);
  return found && { ...found, url: publicUrl + found.target };
}

/** A gateway that is not running answers nobody; any other that does not is out of its buyers' reach. */
async function unreached(config: Config, cause: unknown): Promise<DoctorFinding> {
  const message = describeFailure(cause);
  const isIdle = codeOf(cause) === "ECONNREFUSED" && (await isInUse(config)) === false;
  if (isIdle) {
    return warn(
      SUBJECT,
      `${message}; no gateway is running here`,
      "start it, and run doctor again",
    );
  }
  return fail(
    SUBJECT,
    message,
    "correct publicUrl, or the proxy and the firewall before the gateway",
  );
}

function judgeOffer(dry: DryGateway, sample: Sample, answer: HttpAnswer): DoctorFinding {
  const { key } = sample;
  const { status, headers, text } = answer;
  if (status >= 300 && status < 400) {
    const where = URL.parse(headers.location ?? "", sample.url)?.origin ?? "nowhere";
    const fix = "name in publicUrl where it redirects to: clients do not pay along a redirect";
    return fail(SUBJECT, `answers ${status}, to ${where}, for ${key}`, fix);
  }
  if (status === 429) {
    return warn(SUBJECT, `answers 429 for ${key}`, "wait a minute, and run doctor again");
  }
  if (status !== 402) {
    const fix =
      status < 300
        ? "whoever answers there gives away what has a price: have it lead to the gateway"
        : "have the proxy pass requests on to the gateway with their path, and 402 as it is (nginx: with a larger proxy_buffer_size, see check)";
    return fail(SUBJECT, `answers ${status} for ${key}, not 402`, fix);
  }
  const own = dry.ask(sample).answer;
  const expected = readOffers(own?.body ?? "", own && quoteHeader(own));
  const got = readOffers(text, String(headers[PAYMENT_REQUIRED_HEADER.toLowerCase()] ?? ""));
  if (expected.v1 !== undefined && got.v1 === undefined) {
    const fix = "have the proxy pass the body of a 402 on as it is (no error pages of its own)";
    return fail(SUBJECT, `answers 402 for ${key} without the offers in its body`, fix);
  }
  if (expected.v2 !== undefined && got.v2 === undefined) {
    const fix = `have the proxy pass ${PAYMENT_REQUIRED_HEADER} on: clients of version 2 find no price there now`;
    return fail(SUBJECT, `answers 402 for ${key} without ${PAYMENT_REQUIRED_HEADER}`, fix);
  }
  const difference =
    firstDifference(expected.v1 ?? [], (expected.v1 && got.v1) ?? []) ??
    firstDifference(expected.v2 ?? [], (expected.v2 && got.v2) ?? []);
  if (difference !== null) {
    const fix =
      "another gateway answers there, or this one runs with an older file: reload or restart it";
    return fail(SUBJECT, `sells ${key} on other terms than this file: ${difference}`, fix);
  }
  const ms = Math.round(answer.ms);
  return ok(SUBJECT, `is this gateway: ${key} asks for what this file says, in ${ms} ms`);
}

function judgeCaching({ headers }: HttpAnswer): DoctorFinding {
  const control = headers["cache-control"] ?? "";
  const fix = "have nothing on the way cache these answers, or change their Cache-Control";
  if (!/\bno-store\b/.test(control)) {
    return fail(
      SUBJECT,
      "a 402 comes without Cache-Control: no-store, which it was sent with",
      fix,
    );
  }
  const hit = Object.entries(headers).some(
    ([name, value]) =>
      /^(?:x-cache|cf-cache-status|x-cache-status)$/.test(name) && /hit/i.test(String(value)),
  );
  if (headers.age === undefined && !hit) return ok(SUBJECT, "no cache keeps the 402");
  return fail(SUBJECT, "a cache answers in place of the gateway", fix);
}

async function checkPaymentHeader(
  sample: Sample,
  version: X402Version,
  signal: AbortSignal,
): Promise<readonly DoctorFinding[]> {
  const name = PAYMENT_HEADERS[version];
  const fix = `have the proxy pass ${name} on (and ${RECEIPT_HEADERS[version]} back): nobody can pay now`;
  try {
    const headers = { [name]: NO_PAYMENT };
    const { status, text } = await ask({ url: sample.url, method: sample.method, headers }, signal);
    if (status === 400 && text.includes("invalid_payload")) {
      return [ok(SUBJECT, `${name} reaches the gateway`)];
    }
    if (status === 402) return [fail(SUBJECT, `${name} is lost on the way to the gateway`, fix)];
    return [
      warn(SUBJECT, `answers ${status} to a request with ${name}, not the gateway's 400`, fix),
    ];
  } catch (cause) {
    return [fail(SUBJECT, `with ${name} it ${describeFailure(cause)}`, fix)];
  }
}

/** As a page of another origin asks before it pays. */
async function checkPreflight(
  sample: Sample,
  signal: AbortSignal,
): Promise<readonly DoctorFinding[]> {
  const headers = {
    Origin: "https://doctor.example",
    "Access-Control-Request-Method": sample.method,
    "Access-Control-Request-Headers": "x-payment,payment-signature,access-control-expose-headers",
  };
  const fix =
    "have the proxy leave OPTIONS requests to the gateway: pages in a browser cannot pay now";
  try {
    const answer = await ask({ url: sample.url, method: "OPTIONS", headers }, signal);
    if (answer.status === 204) return [ok(SUBJECT, "preflights of browsers reach the gateway")];
    return [warn(SUBJECT, `answers ${answer.status} to a browser's preflight, not 204`, fix)];
  } catch (cause) {
    return [warn(SUBJECT, `a browser's preflight fails: it ${describeFailure(cause)}`, fix)];
  }
}
