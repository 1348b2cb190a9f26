/** `payers`: who may not pay here, or who alone may, as lists in files of their own. */
import { z } from "zod";
import { MAX_PAYERS, PayerList } from "../x402/payer-list.ts";
import { unreadable, type Context } from "./reading/context.ts";
import { fault } from "./reading/reading.ts";
import { listOf, map, optional, plainText } from "./reading/shapes.ts";
import type { Path } from "./reading/tree.ts";

export interface PayerRules {
  /** Whose payments are not taken. */
  readonly deny: PayerList;
  /** Whose payments alone are; null: everybody's. */
  readonly allow: PayerList | null;
  /** Absolute paths of the files that they were read from. */
  readonly files: readonly string[];
}

/** Lines of one file that are told of. */
const MAX_TOLD = 5;

const EMPTY_HINT = "where nobody is on the list, say so in a comment: # nobody";

const path = plainText.min(1, "must be the path of a file");
const files = z.union(
  [path.transform((one): readonly string[] => [one]), listOf(path)],
  "must be the path of a file, or a list of them",
);

export const PAYER_FILES_FORMAT =
  "An address a line, 0x… or base58, or with its chain as CAIP-10 (eip155:8453:0x…); # begins a comment, and of CSV " +
  "the first column counts. Read again when it changes.";

export const payers = map({
  deny: optional(
    files,
    `Files with payers whose payments are not taken (403), on whichever chain of their kind. ${PAYER_FILES_FORMAT}`,
  ),
  allow: optional(
    files,
    `Files with the only payers whose payments are; an entry with a chain counts on that chain alone. ${PAYER_FILES_FORMAT}`,
  ),
});

export function resolvePayers(
  { deny = [], allow }: z.output<typeof payers>,
  context: Context,
): PayerRules {
  const denied = new PayerList("any");
  const allowed = new PayerList("that");
  readAll(denied, deny, ["payers", "deny"], context);
  readAll(allowed, allow ?? [], ["payers", "allow"], context);
  const named = [...deny, ...(allow ?? [])].map((file) => context.absolute(file));
  return { deny: denied, allow: allow === undefined ? null : allowed, files: named };
}

function readAll(list: PayerList, names: readonly string[], place: Path, context: Context): void {
  for (const [index, file] of names.entries()) {
    const at = context.tree.find(place)?.kind === "scalar" ? place : [...place, index];
    readPayers(list, file, at, context);
  }
}

/** Adds the entries of one file. */
export function readPayers(list: PayerList, file: string, at: Path, context: Context): void {
  const { problems } = context;
  let text: string;
  try {
    text = context.environment.readFile(context.absolute(file));
  } catch {
    const hint = "write the path of a list of payers, relative to the folder of this file";
    const missing = unreadable("the file cannot be read", file, hint);
    if (!context.forgives(missing)) problems.error(at, missing);
    return;
  }
  // Whoever writes a list anew empties its file first.
  if (text.trim() === "") {
    problems.error(at, fault("bad-file", "the file is empty", EMPTY_HINT));
    return;
  }
  const faults = list.read(text);
  for (const { line, message } of faults.slice(0, MAX_TOLD)) {
    problems.error(at, fault("bad-file", `line ${line} of the file ${message}`));
  }
  if (faults.length > MAX_TOLD) {
    const more = faults.length - MAX_TOLD;
    problems.error(at, fault("bad-file", `${more} more lines of the file are no entries`));
  }
  if (list.size <= MAX_PAYERS) return;
  problems.error(at, fault("bad-file", `the lists have more than ${MAX_PAYERS} entries`));
}
