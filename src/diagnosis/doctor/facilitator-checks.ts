/** Facilitators elsewhere: whether they answer, settle what the routes are sold on, and have the right time. */
import type { Config, RemoteFacilitatorSettings as RemoteSettings } from "../../config/config.ts";
import { createRemote } from "../../app/facilitation.ts";
import type { Surroundings } from "../../app/chains.ts";
import { EXACT_SCHEME, X402_VERSION, type SupportedKind } from "../../x402/x402.ts";
import { networkOf, type NetworkName } from "../../x402/network.ts";
import { nameOfKind } from "../../x402/version-2.ts";
import { certificateFault, validityFinding } from "./certificates.ts";
import { describeFailure, fail, ok, warn, type Check, type DoctorFinding } from "./finding.ts";
import { ask, readCertificate } from "./http-probe.ts";
import { messageOf } from "../../x402/result.ts";

/** The Date header has whole seconds, and the way takes its time: so far apart says nothing, seconds. */
const FINE_SKEW_SECONDS = 5;
/** So far apart payments expire before they are looked at, seconds. */
const BAD_SKEW_SECONDS = 30;

export function facilitatorChecks(config: Config, at: Surroundings): readonly Check[] {
  const { remote } = config.facilitator;
  const sold = soldElsewhere(config);
  if (remote.length === 0) return [];
  const asked = new Map<RemoteSettings, Promise<readonly SupportedKind[]>>();
  const kindsOf = (settings: RemoteSettings, signal: AbortSignal) => {
    const known = asked.get(settings) ?? readKinds(settings, at, signal);
    asked.set(settings, known);
    known.catch(() => undefined);
    return known;
  };
  const each = remote.map((settings): Check => {
    const name = new URL(settings.url).host;
    const run: Check["run"] = async (signal) => {
      const subject = `facilitator ${name}`;
      const asked = kindsOf(settings, signal);
      const [shown, clock] = await Promise.all([
        checkCertificate(subject, settings, signal),
        checkClock(subject, settings, signal),
      ]);
      if (shown.some(({ status }) => status === "fail")) return shown;
      try {
        const kinds = await asked;
        const versions = versionsOf(kinds);
        const settled = sold.filter((network) => versions.has(network));
        const told = [...versions].map(([network, each]) => `${network} ${describeVersions(each)}`);
        const message = `settles ${told.length === 0 ? "nothing that is known here" : told.join(", ")}`;
        const unused = `${message}, and nothing is sold on any of them`;
        const fix = "remove it, or sell on a network that it settles";
        const finding =
          settled.length > 0 || sold.length === 0
            ? ok(subject, message)
            : warn(subject, unused, fix);
        return [...shown, finding, ...clock];
      } catch (cause) {
        const fix =
          "correct its URL, its headers or its certificate; payments that it settles fail now";
        return [...shown, fail(subject, `GET /supported: ${messageOf(cause)}`, fix)];
      }
    };
    return { name, section: "facilitators", run };
  });
  const run: Check["run"] = async (signal) => {
    const answers = await Promise.allSettled(remote.map((settings) => kindsOf(settings, signal)));
    const kinds = answers.flatMap((answer) => (answer.status === "fulfilled" ? answer.value : []));
    return sold.flatMap((network) => checkCovered(network, kinds));
  };
  return [...each, { name: "what facilitators settle", section: "facilitators", run }];
}

/** Networks on which something is sold and that are not settled here. */
function soldElsewhere({ routes, facilitator }: Config): readonly NetworkName[] {
  const own = new Set<string>(facilitator.embedded.map(({ network }) => network));
  const offers = routes.flatMap(({ action }) => (action.kind === "priced" ? action.offers : []));
  const sold = offers.map(({ network }) => network).filter((name) => !own.has(name));
  return [...new Set(sold)];
}

async function readKinds(
  settings: RemoteSettings,
  { telemetry, time }: Surroundings,
  signal: AbortSignal,
): Promise<readonly SupportedKind[]> {
  const facilitator = createRemote(settings, { telemetry, time });
  try {
    return (await facilitator.supported(signal)).kinds;
  } finally {
    await facilitator.close();
  }
}

async function checkCertificate(
  subject: string,
  { url }: RemoteSettings,
  signal: AbortSignal,
): Promise<readonly DoctorFinding[]> {
  if (!url.startsWith("https:")) return [];
  try {
    const shown = await readCertificate({ url }, ["http/1.1"], signal);
    return [certificateFault(subject, shown) ?? validityFinding(subject, shown, Date.now())];
  } catch (cause) {
    return [fail(subject, describeFailure(cause), "correct its URL under facilitator.remote")];
  }
}

/** Nothing where it does not answer, which is told elsewhere, or has no Date. */
async function checkClock(
  subject: string,
  { url }: RemoteSettings,
  signal: AbortSignal,
): Promise<readonly DoctorFinding[]> {
  const asked = Date.now();
  const answer = await ask({ url: `${url}/supported` }, signal).catch(() => null);
  const date = Date.parse(answer?.headers.date ?? "");
  if (Number.isNaN(date)) return [];
  // Whatever it read the time at, it was between the question and the answer.
  const ahead = Math.max(0, date - Date.now());
  const behind = Math.max(0, asked - (date + 1_000));
  const seconds = Math.round(Math.max(ahead, behind) / 1_000);
  if (seconds <= FINE_SKEW_SECONDS) return [ok(subject, "its clock and ours agree")];
  const message = `its clock is ${seconds} s ${ahead > 0 ? "ahead of" : "behind"} ours`;
  const fix = "set this machine's clock (NTP): payments have to be settled within their time";
  return [(seconds > BAD_SKEW_SECONDS ? fail : warn)(subject, message, fix)];
}

/** By network, in the order told. */
function versionsOf(kinds: readonly SupportedKind[]): ReadonlyMap<string, ReadonlySet<number>> {
  const versions = new Map<string, Set<number>>();
  for (const kind of kinds) {
    const network = nameOf(kind);
    if (network === undefined) continue;
    versions.set(network, (versions.get(network) ?? new Set()).add(kind.x402Version));
  }
  return versions;
}

function nameOf(kind: SupportedKind): string | undefined {
  return kind.scheme === EXACT_SCHEME ? nameOfKind(kind) : undefined;
}

/** Buyers of the other version are served as well. */
function describeVersions(versions: ReadonlySet<number>): string {
  if (versions.size > 1) return "in versions 1 and 2";
  const [only, other] = versions.has(X402_VERSION) ? [1, 2] : [2, 1];
  return `in version ${only} (payments of version ${other} are translated)`;
}

function checkCovered(
  network: NetworkName,
  kinds: readonly SupportedKind[],
): readonly DoctorFinding[] {
  const facts = networkOf(network);
  const subject = `sales on ${network}`;
  const ours = kinds.filter((kind) => nameOf(kind) === network);
  if (ours.length === 0) {
    const fix = `settle ${network} under facilitator.embedded, name a facilitator that does, or sell elsewhere`;
    return [fail(subject, "no facilitator that answers settles them", fix)];
  }
  if (facts.kind === "evm") return [ok(subject, "are settled by a facilitator elsewhere")];
  const payer = ours
    .map(({ extra }) => extra?.["feePayer"])
    .find((each) => typeof each === "string");
  if (payer !== undefined) return [ok(subject, `are settled elsewhere, fee payer ${payer}`)];
  const fix = "GET /supported has to name extra.feePayer for this network; use another facilitator";
  return [fail(subject, "nobody says who pays the network fee, so nothing is sold", fix)];
}
