/** A memory limit like a container's: a control group of its own below that of this process, where one can be made. */
import { mkdir, readFile, rmdir, writeFile } from "node:fs/promises";
import { join } from "node:path";

const ROOT = "/sys/fs/cgroup";

export interface MemoryLimit extends AsyncDisposable {
  /** The command that joins the group and becomes what follows it. */
  readonly prefix: readonly string[];
}

/** Null where none can be made: it takes Linux, root, and a group that may have groups below it. */
export async function limitMemory(bytes: number): Promise<MemoryLimit | null> {
  for (const [below, limit] of await candidates()) {
    const folder = join(below, `coinslot-${process.pid}-${Date.now()}`);
    try {
      await mkdir(folder);
    } catch {
      continue;
    }
    try {
      await writeFile(join(folder, limit), String(bytes));
    } catch {
      await rmdir(folder);
      continue;
    }
    const script = `echo $$ > '${join(folder, "cgroup.procs")}' && exec "$@"`;
    return {
      prefix: ["sh", "-c", script, "sh"],
      [Symbol.asyncDispose]: () => rmdir(folder),
    };
  }
  return null;
}

/** The folder of this process's group, and the file of a group that has its limit, of both versions. */
async function candidates(): Promise<readonly (readonly [below: string, limit: string])[]> {
  const told = await readFile("/proc/self/cgroup", "utf8").catch(() => "");
  const own = (line: RegExp): string => line.exec(told)?.[1] ?? "/";
  return [
    [join(ROOT, "memory", own(/^\d+:memory:(.*)$/m)), "memory.limit_in_bytes"],
    [join(ROOT, own(/^0::(.*)$/m)), "memory.max"],
  ];
}
