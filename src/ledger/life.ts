/**
 * Lives: who a row belongs to. A process has one, unguessably named; each of its worker processes has one
 * within it, `PROCESS/WORKER`. What a worker holds is out of reach for its siblings, while the process settles
 * it for whichever worker has claimed it.
 */
const WITHIN = "/";

export function lifeWithin(process: string, worker: string): string {
  return `${process}${WITHIN}${worker}`;
}

/** The process that a life is, or is within. */
export function processOf(life: string): string {
  return life.split(WITHIN, 1).join("");
}

/** Whether a life is that one, or within it. */
export function isOf(life: string, owner: string): boolean {
  return life === owner || life.startsWith(`${owner}${WITHIN}`);
}
