/** What `coinslot check` found in one file, before it is written in a format. */
import type { ProcessPlaces } from "../../app/places.ts";
import type { Problem } from "../../config/config.ts";

export interface CheckedFile {
  /** As it was named on the command line. */
  readonly name: string;
  /** Whether `serve` would take it. */
  readonly isAccepted: boolean;
  /** In the order of the file. */
  readonly problems: readonly Problem[];
  /** With its secrets masked, for quotations. */
  readonly text: string;
  /** For requests in flight, and why so many; not there where it is refused. */
  readonly places?: ProcessPlaces;
}

export function countOf({ problems }: CheckedFile, severity: Problem["severity"]): number {
  return problems.filter((each) => each.severity === severity).length;
}

/** The line of each problem, to be quoted; undefined: it has none. */
export function sourcesOf({ text }: CheckedFile): (problem: Problem) => string | undefined {
  const lines = text.split(/\r?\n/);
  return ({ line, source }) => source ?? lines[line - 1];
}

/** As it was named on the command line, or one that it includes. */
export function fileOf({ name }: Pick<CheckedFile, "name">, { file, source }: Problem): string {
  return source === undefined ? name : file;
}
