/** How busy others keep the machine while a bench runs (Linux, /proc/stat). */
import { readFileSync } from "node:fs";
import { cpus } from "node:os";
import { cpuMicros, ticksPerSecond } from "../process.ts";

export class Disturbance {
  readonly #started = performance.now();
  readonly #busy = busyMicros();
  readonly #own = cpuMicros(process.pid);

  /** Share of all cores, 0 to 1, that went to other processes than those of the bench since then. */
  read(): number {
    const others = busyMicros() - this.#busy - (cpuMicros(process.pid) - this.#own);
    const elapsed = (performance.now() - this.#started) * 1000 * cpus().length;
    return Math.max(0, others / elapsed);
  }
}

/** Time that any core was busy since the machine started, microseconds. */
function busyMicros(): number {
  const [all = ""] = readFileSync("/proc/stat", "utf8").split("\n", 1);
  // proc_stat(5): user, nice, system, idle, iowait, irq, softirq, steal.
  const [user, nice, system, , , irq, softIrq, steal] = all.split(/ +/).slice(1).map(Number);
  const ticks = [user, nice, system, irq, softIrq, steal].reduce<number>(
    (sum, value) => sum + (value ?? 0),
    0,
  );
  return (ticks / ticksPerSecond) * 1e6;
}
