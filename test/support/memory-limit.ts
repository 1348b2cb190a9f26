/** A memory limit like a container's: a control group of its own below that of this process, where one can be made. */
import { mkdir, readFile, rmdir, writeFile } from "node:fs/promises";
import { join } from "node:path";

const ROOT = "/sys/fs/cgroup";

export interface MemoryLimit extends AsyncDisposable {
  /** The command that joins the group and becomes what follows it. */
  readonly prefix: readonly string[];
  /** Processes that the system has killed because they wanted more. */
  killed(): Promise<number>;
}

/** Null where none can be made: it takes Linux, root, and a group that may have groups below it. */
export async function limitMemory(bytes: number): Promise<MemoryLimit | null> {
  for (const { below, limit, events, kill } of await candidates()) {
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
      async killed() {
        const told = await readFile(join(folder, events), "utf8");
        return Number(new RegExp(`^${kill} (\\d+)$`, "m").exec(told)?.[1] ?? 0);
      },
      [Symbol.asyncDispose]: () => rmdir(folder),
    };
  }
  return null;
}

interface Candidate {
  /** Of this process. */
  readonly below: string;
  /** Files of a group: its limit, what happened in it, and the line of that which counts. */
  readonly limit: string;
  readonly events: string;
  readonly kill: string;
}

/** Of both versions. */
async function candidates(): Promise<readonly Candidate[]> {
  const told = await readFile("/proc/self/cgroup", "utf8").catch(() => "");
  const own = (line: RegExp): string => line.exec(told)?.[1] ?? "/";
  return [
    {
      below: join(ROOT, "memory", own(/^\d+:memory:(.*)$/m)),
      limit: "memory.limit_in_bytes",
      events: "memory.oom_control",
      kill: "oom_kill",
    },
    {
      below: join(ROOT, own(/^0::(.*)$/m)),
      limit: "memory.max",
      events: "memory.events",
      kill: "oom_kill",
    },
  ];
}
