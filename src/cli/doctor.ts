/** `coinslot doctor FILE`: what a running gateway would meet, each finding with what to do about it. */
import { examine, judgeRoutes, type Progress, type Report } from "../app/doctor/doctor.ts";
import type { Config } from "../config/config.ts";
import { reportText } from "./doctor-text.ts";
import { loadOrExplain } from "./load.ts";
import { toJson } from "./payment-text.ts";
import { wantsColor } from "./terminal.ts";

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
  const config = await loadOrExplain(file);
  if (config === undefined) return 1;
  const display = new ProgressLine(process.stderr);
  const report = await examine(config, {
    timeoutMs: timeout,
    onProgress: (progress) => display.show(progress),
  });
  display.clear();
  const counts = countOf(report);
  const isGood = counts.fail === 0 && (!strict || counts.warn === 0);
  const color = wantsColor(process.stdout);
  const findings = report.flatMap(({ section, findings: some }) =>
    some.map((each) => ({ section, ...each })),
  );
  process.stdout.write(
    json
      ? toJson({ file, ok: isGood, counts, findings, clients: clientsOf(config) })
      : reportText(report, counts, color),
  );
  return isGood ? 0 : 1;
}

/** What each client with each wallet makes of each price. */
function clientsOf(config: Config) {
  return [...judgeRoutes(config)].flatMap(([route, verdicts]) =>
    verdicts.map(({ client, wallet, verdict, said }) => {
      return { route, client, wallet, pays: verdict.kind === "pays", said };
    }),
  );
}

function countOf(report: Report) {
  const all = report.flatMap(({ findings }) => findings);
  const count = (wanted: string): number => all.filter(({ status }) => status === wanted).length;
  return { ok: count("ok"), warn: count("warn"), fail: count("fail") };
}

/** Of a terminal that does not say how wide it is. */
const USUAL_COLUMNS = 80;
/** Checks that are named as running. */
const MAX_SHOWN = 3;

/** One line that is written over, on a terminal; nothing anywhere else. */
class ProgressLine {
  readonly #stream: NodeJS.WriteStream;

  constructor(stream: NodeJS.WriteStream) {
    this.#stream = stream;
  }

  show({ done, all, running }: Progress): void {
    if (!this.#stream.isTTY) return;
    const columns = this.#stream.columns > 0 ? this.#stream.columns : USUAL_COLUMNS;
    const line = `${done} of ${all} checks done; ${running.slice(0, MAX_SHOWN).join(", ")}`;
    this.#stream.write(`\r\u001b[K${line.slice(0, Math.max(1, columns - 1))}`);
  }

  clear(): void {
    if (this.#stream.isTTY) this.#stream.write("\r\u001b[K");
  }
}
