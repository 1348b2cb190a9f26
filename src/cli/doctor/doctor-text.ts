/** The report of `doctor` for people: a line for each finding, and below it what to do. */
import type { DoctorFinding, Report, Status } from "../../diagnosis/doctor/doctor.ts";
import { printable } from "../../config/config.ts";

const COLORS: Readonly<Record<Status, number>> = { ok: 32, warn: 33, fail: 31 };
const BOLD = 1;

export function reportText(
  report: Report,
  counts: Readonly<Record<Status, number>>,
  color: boolean,
): string {
  const paint = (code: number, text: string): string =>
    color ? `\u001b[${code}m${text}\u001b[0m` : text;
  const line = ({ subject, status, message, fix }: DoctorFinding): string => {
    const head = `  ${paint(COLORS[status], status.padEnd(4))}  ${printable(`${subject}: ${message}`)}\n`;
    return fix === null ? head : `${head}        fix: ${printable(fix)}\n`;
  };
  const sections = report.map(
    ({ section, findings }) => `${paint(BOLD, section)}\n${findings.map(line).join("")}\n`,
  );
  return `${sections.join("")}${counts.ok} ok, ${counts.warn} to look at, ${counts.fail} failed\n`;
}
