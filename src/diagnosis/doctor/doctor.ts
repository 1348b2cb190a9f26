/**
 * Everything that a running gateway would meet, looked at once and at the same time: what is right, what is not,
 * and what to do about it. Pays nothing, changes nothing, takes no lock; of a
 * backend it asks some of what is priced (`alias-checks.ts`).
 */
import type { Config } from "../../config/config.ts";
import { quietly } from "../quiet.ts";
import { aliasChecks } from "./alias-checks.ts";
import { acmeChecks, listenerChecks } from "./certificates.ts";
import { clientChecks } from "./client-checks.ts";
import { commandChecks } from "./command-checks.ts";
import { facilitatorChecks } from "./facilitator-checks.ts";
import { fail, SECTIONS, type Check, type DoctorFinding, type Section } from "./finding.ts";
import { meterChecks } from "./meter-checks.ts";
import { networkChecks } from "./network-checks.ts";
import { publicUrlChecks } from "./public-url-checks.ts";
import { storeChecks } from "./store-checks.ts";
import { upstreamChecks } from "./upstream-checks.ts";
import { messageOf } from "../../x402/result.ts";

export { judgeRoutes } from "./client-checks.ts";
export type { DoctorFinding, Status } from "./finding.ts";

export interface Progress {
  readonly done: number;
  readonly all: number;
  /** Names of the checks that are still running. */
  readonly running: readonly string[];
}

export interface ExamineOptions {
  /** For each check. */
  readonly timeoutMs: number;
  readonly onProgress?: (progress: Progress) => void;
}

export type Report = readonly {
  readonly section: Section;
  readonly findings: readonly DoctorFinding[];
}[];

/** Never rejects: what cannot be looked at is a finding. */
export async function examine(config: Config, options: ExamineOptions): Promise<Report> {
  const at = quietly();
  const checks = [
    ...networkChecks(config, at),
    ...facilitatorChecks(config, at),
    ...upstreamChecks(config),
    ...commandChecks(config),
    ...aliasChecks(config),
    ...meterChecks(config),
    ...listenerChecks(config),
    ...acmeChecks(config),
    ...storeChecks(config),
    ...publicUrlChecks(config),
    ...clientChecks(config),
  ];
  const running = new Set(checks);
  const tell = (): void => {
    const names = [...running].map(({ name }) => name);
    options.onProgress?.({
      done: checks.length - running.size,
      all: checks.length,
      running: names,
    });
  };
  tell();
  const found = await Promise.all(
    checks.map(async (check) => {
      const findings = await runCheck(check, options.timeoutMs);
      running.delete(check);
      tell();
      return { section: check.section, findings };
    }),
  );
  return SECTIONS.map((section) => ({
    section,
    findings: found.filter((each) => each.section === section).flatMap(({ findings }) => findings),
  })).filter(({ findings }) => findings.length > 0);
}

async function runCheck(
  { name, run }: Check,
  timeoutMs: number,
): Promise<readonly DoctorFinding[]> {
  const ending = new AbortController();
  const timer = setTimeout(() => ending.abort(timeoutError()), timeoutMs);
  const late = new Promise<readonly DoctorFinding[]>((resolve) => {
    const message = `has not come to an end within ${timeoutMs / 1_000} s`;
    const fix = "see to the network, or give it longer with --timeout";
    ending.signal.addEventListener("abort", () => {
      // What ends by the signal says more than that it was ended.
      setTimeout(() => resolve([fail(name, message, fix)]), GRACE_MS);
    });
  });
  try {
    return await Promise.race([run(ending.signal), late]);
  } catch (cause) {
    return [
      fail(name, `cannot be checked: ${messageOf(cause)}`, "see to it, and run doctor again"),
    ];
  } finally {
    clearTimeout(timer);
  }
}

/** How long a check has to end once its time is up, milliseconds. */
const GRACE_MS = 500;

function timeoutError(): Error {
  const error = new Error("the time for this check is up");
  error.name = "TimeoutError";
  return error;
}
