/** `coinslot doctor FILE`: what a running gateway would meet, each finding with what to do about it. */
import { examine, judgeRoutes } from "../../diagnosis/doctor/doctor.ts";
import { reportText } from "./doctor-text.ts";
import { loadOrExplain } from "../load.ts";
import { toJson } from "../payments/payment-text.ts";
import { ProgressLine, wantsColor } from "../terminal.ts";

export interface DoctorOptions {
  /** For each check, milliseconds. */
  readonly timeout: number;
  readonly strict?: boolean;
  readonly json?: boolean;
}

/** Resolves with the exit code: 1 where the file is refused or something failed. */
export async function doctor(
  file: string,
  { timeout, strict = false, json }: DoctorOptions,
): Promise<number> {
  const config = await loadOrExplain(file, { json });
  if (config === undefined) return 1;
  const display = new ProgressLine();
  const report = await examine(config, {
    timeoutMs: timeout,
    onProgress: (progress) =>
      display.show(
        `${progress.done} of ${progress.all} checks done; ${progress.running.slice(0, MAX_SHOWN).join(", ")}`,
      ),
  });
  display.clear();
  const all = report.flatMap(({ findings }) => findings);
  const count = (wanted: string): number => all.filter(({ status }) => status === wanted).length;
  const counts = { ok: count("ok"), warn: count("warn"), fail: count("fail") };
  const isGood = counts.fail === 0 && (!strict || counts.warn === 0);
  const color = wantsColor(process.stdout);
  const findings = report.flatMap(({ section, findings: some }) =>
    some.map((each) => ({ section, ...each })),
  );
  // What each client with each wallet makes of each price.
  process.stdout.write(
    json
      ? toJson({
          file,
          ok: isGood,
          counts,
          findings,
          clients: [...judgeRoutes(config)].flatMap(([route, verdicts]) =>
            verdicts.map(({ client, wallet, verdict, said }) => {
              return { route, client, wallet, pays: verdict.kind === "pays", said };
            }),
          ),
        })
      : reportText(report, counts, color),
  );
  return isGood ? 0 : 1;
}

/** Checks that are named as running. */
const MAX_SHOWN = 3;
