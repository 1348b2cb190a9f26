/** Faults that are chosen one by one: `12:crash-after,20:fail-before`. */
import { FAULTS, type Fault } from "./faults.ts";

export interface PlannedFault {
  /** The crossing, counted from 0. */
  readonly at: number;
  readonly fault: Fault;
}

export function nameFaults(plan: readonly PlannedFault[]): string {
  return plan.map(({ at, fault }) => `${at}:${fault}`).join(",") || "no fault";
}

/** Throws for a text that names no faults. */
export function readFaults(text: string): readonly PlannedFault[] {
  return text.split(",").map((part) => {
    const [at = "", name] = part.split(":");
    const fault = FAULTS.find((each) => each === name);
    if (fault === undefined || !/^\d+$/.test(at)) throw new Error(`no fault: ${part}`);
    return { at: Number(at), fault };
  });
}
