/** `members`: groups of payers who pay another price, and `sessions`: how long who has signed in is known. */
import { z } from "zod";
import { isEvmAddress } from "../x402/address.ts";
import { PayerList } from "../x402/payer-list.ts";
import { isSolanaAddress } from "../x402/solana-address.ts";
import { PAYER_FILES_FORMAT, readPayers } from "./payers.ts";
import { GROUP, GROUP_FORM } from "./reading/forms.ts";
import type { Context } from "./reading/context.ts";
import { bad, fault, LASTING, LASTING_FORM, readLasting } from "./reading/reading.ts";
import { ok } from "../x402/result.ts";
import { listOf, map, matching, named, optional, plainText, text } from "./reading/shapes.ts";

export interface MemberSettings {
  /** Who is in each group, by its name. */
  readonly groups: Readonly<Record<string, PayerList>>;
  /** Not everybody may pay here (`payers`): whoever is in a group may be denied all the same. */
  readonly areScreened: boolean;
  /** Absolute paths of the files that they were read from. */
  readonly files: readonly string[];
}

export interface SessionSettings {
  readonly forMs: number;
  /** Those of before count no more, ISO 8601; null: all count. */
  readonly notBefore: string | null;
}

/** Each request for a route with prices for members is looked for in those of the route. */
const MAX_GROUPS = 64;

const entry = plainText.min(1, "must be an address, or the path of a file");
const group = z.union(
  [entry.transform((one): readonly string[] => [one]), listOf(entry)],
  "must be an address or the path of a file, or a list of them",
);

export const members = named(group, GROUP_FORM);

export const MEMBERS_USAGE =
  "Groups of payers by name, for `prices` of routes: each an address or a file, or a list of both. Who signs in with such " +
  `an account is in the group. ${PAYER_FILES_FORMAT}`;

/** ISO 8601 in UTC, to the second. */
const MOMENT = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$/;
const MOMENT_FORM = "must be a time in UTC such as 2026-01-31T12:00:00Z";

export const sessions = map({
  for: optional(
    text(readLasting, matching(LASTING, LASTING_FORM, "1h", "30d"), LASTING_FORM),
    "How long who has signed in is known by a session, up to 365d; groups, prices and purchases are looked up each time.",
    "1h",
  ),
  notBefore: optional(
    text(
      (moment) => {
        const isOne = MOMENT.test(moment) && !Number.isNaN(Date.parse(moment));
        return isOne ? ok(moment) : bad(MOMENT_FORM);
      },
      matching(MOMENT, MOMENT_FORM, "2026-01-31T12:00:00Z"),
    ),
    "Sessions that began before then count no more: write the time of now to end all of them.",
  ),
});

export function resolveSessions({
  for: forMs,
  notBefore,
}: z.output<typeof sessions>): SessionSettings {
  return { forMs, notBefore: notBefore ?? null };
}

/** An entry with a chain counts on that chain alone, as where payers are allowed. */
export function resolveMembers(
  written: z.output<typeof members>,
  context: Context,
): MemberSettings {
  const areScreened = ["deny", "allow"].some((key) => context.tree.has(["payers", key]));
  const { tree, problems } = context;
  const groups: Record<string, PayerList> = {};
  const files: string[] = [];
  const names = tree.keys(["members"]);
  if (names.length > MAX_GROUPS) {
    problems.error(["members"], fault("bad-value", `must have at most ${MAX_GROUPS} groups`));
  }
  for (const name of names) {
    const place = ["members", name];
    if (!GROUP.test(name)) {
      problems.errorAtKey(place, fault("bad-key", String(GROUP_FORM.patternErrorMessage)));
      continue;
    }
    const list = new PayerList("that");
    // Absent where the value was refused.
    const entries = written[name];
    for (const [index, each] of (entries ?? []).entries()) {
      const at = tree.find(place)?.kind === "scalar" ? place : [...place, index];
      if (isAddress(each)) list.read(each);
      else {
        readPayers(list, each, at, context);
        files.push(context.absolute(each));
      }
    }
    groups[name] = list;
  }
  return { groups, areScreened, files };
}

/** With its chain, too (CAIP-10). */
function isAddress(entry: string): boolean {
  const address = /^(?:eip155|solana):[-\w]{1,32}:(.*)$/.exec(entry)?.[1] ?? entry;
  return isEvmAddress(address) || isSolanaAddress(address);
}
