/** Whether the program of each command could be started, as the gateway would: nothing is. */
import { constants } from "node:fs";
import { access, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, isAbsolute, join, resolve } from "node:path";
import type { Config, Upstream } from "../../config/config.ts";
import { fail, ok, type Check, type DoctorFinding } from "./finding.ts";

/** What is looked at where no path is named. */
interface Around {
  readonly path: string;
  readonly folder: string;
}

export function commandChecks(
  { upstreams }: Pick<Config, "upstreams">,
  around: Around = { path: process.env["PATH"] ?? "", folder: tmpdir() },
): readonly Check[] {
  return upstreams.flatMap(({ name, command }): Check[] => {
    if (command === null) return [];
    const subject = `${name} command`;
    return [{ name: subject, section: "upstreams", run: () => examine(subject, command, around) }];
  });
}

async function examine(
  subject: string,
  { run, cwd }: NonNullable<Upstream["command"]>,
  { path, folder }: Around,
): Promise<readonly DoctorFinding[]> {
  const findings: DoctorFinding[] = [];
  if (!(await isUsable(folder, constants.W_OK | constants.X_OK))) {
    const fix = "let the gateway's user write there, or name another folder in TMPDIR";
    findings.push(fail(subject, `the temporary folder ${folder} cannot be written`, fix));
  }
  if (cwd !== null && (await kindOf(cwd)) !== "folder") {
    const said = `its folder ${cwd} is not there`;
    return [...findings, fail(subject, said, "make it, or correct cwd")];
  }
  return [...findings, await judge(subject, run[0] ?? "", resolve(cwd ?? "."), path)];
}

async function judge(
  subject: string,
  program: string,
  folder: string,
  path: string,
): Promise<DoctorFinding> {
  const isNamed = program.includes("/");
  const found = isNamed
    ? [isAbsolute(program) ? program : join(folder, program)]
    : path.split(delimiter).map((each) => resolve(folder, each, program));
  const files: string[] = [];
  for (const each of found) if ((await kindOf(each)) === "file") files.push(each);
  for (const each of files) {
    if (await isUsable(each, constants.X_OK)) return ok(subject, `${each} can be started`);
  }
  const [file] = files;
  if (file !== undefined) {
    const fix = `chmod +x it, or name what runs it: command: [node, ${program}]`;
    return fail(subject, `${file} is there, and may not be started`, fix);
  }
  return isNamed
    ? fail(subject, `there is no program ${found[0]}`, "install it, or correct run")
    : fail(
        subject,
        `there is no program ${program} in PATH`,
        "install it, or name its whole path: PATH is that of whoever starts the gateway",
      );
}

async function kindOf(path: string): Promise<"file" | "folder" | null> {
  const stats = await stat(path).catch(() => null);
  if (stats === null) return null;
  return stats.isDirectory() ? "folder" : "file";
}

async function isUsable(path: string, mode: number): Promise<boolean> {
  return access(path, mode).then(
    () => true,
    () => false,
  );
}
