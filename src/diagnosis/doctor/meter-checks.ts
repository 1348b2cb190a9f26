/**
 * Whether the answer of a metered route says what it has used: each that does not is charged `max`. Asked as
 * `alias-checks.ts` asks, with GET, and so of nothing that is only sent.
 */
import { sitesOf, type Config, type RouteSettings, type Site } from "../../config/config.ts";
import { AnswerMeter } from "../../metering/answer-meter.ts";
import { sourceText, type MeterTerms } from "../../metering/meter.ts";
import { backendQuestion, mayBeAsked } from "./backend-question.ts";
import { describeFailure, ok, warn, type Check, type DoctorFinding } from "./finding.ts";
import { ask, type HttpAnswer } from "./http-probe.ts";

/** Routes of a site that are asked: it is a backend at work. */
const MAX_ASKED = 20;

/** Nothing where another proxy has the backend. */
export function meterChecks(config: Config): readonly Check[] {
  return config.sidecar === null ? sitesOf(config).flatMap(siteChecks) : [];
}

function siteChecks(config: Site<Config>): readonly Check[] {
  return config.routes
    .filter(mayBeAsked)
    .flatMap((route) => checkOf(route, config) ?? [])
    .slice(0, MAX_ASKED);
}

function checkOf({ key, pattern, action }: RouteSettings, config: Site<Config>): Check | null {
  if (action.kind !== "priced" || action.metered === null) return null;
  const { metered } = action;
  const name = `meter of ${key}`;
  const question = backendQuestion(config, action.upstream, pattern);
  if (question === null) return null;
  const run: Check["run"] = async (signal) => {
    const headers = { ...question.headers, "accept-encoding": "identity" };
    try {
      return [judge(name, metered, await ask({ ...question, headers }, signal))];
    } catch (cause) {
      const fix = "see to the backend, and look again";
      return [warn(name, describeFailure(cause), fix)];
    }
  };
  return { name, section: "upstreams", run };
}

function judge(name: string, { of, max }: MeterTerms, answer: HttpAnswer): DoctorFinding {
  const { status, headers, text } = answer;
  if (status < 200 || status >= 300) {
    return ok(name, `cannot be looked at: the backend answers ${status} to a plain GET`);
  }
  const meter = new AnswerMeter(of);
  meter.begin((line) => [headers[line] ?? []].flat());
  meter.take(Buffer.from(text));
  const reading = meter.end();
  const sources = of.map(sourceText).join(", ");
  if (reading.kind === "read") return ok(name, `${sources} says ${reading.usage.text}`);
  const message = `an answer does not say what it has used (${reading.reason}), and so costs ${max}`;
  return warn(name, message, `correct of: ${sources}, or have the backend say it`);
}
