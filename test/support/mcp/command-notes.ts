import type { CommandMeter } from "../../../src/telemetry/command-meter.ts";

/** A meter that writes down what it is told. */
export function noting(notes: string[]): CommandMeter {
  return {
    begun: () => void notes.push("begun"),
    ended: (how) => void notes.push(how),
    refused: (reason) => void notes.push(reason),
    retire: () => void notes.push("retired"),
  };
}
