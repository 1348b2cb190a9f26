/** `members`: groups of payers who pay another price, and `sessions`: how long who has signed in is known. */
import { z } from "zod";
import { checksumAddress, isEvmAddress } from "../x402/address.ts";
import { parseDollars } from "../x402/amount.ts";
import type { HolderTerms } from "../x402/holding.ts";
import { networkOf, type NetworkName } from "../x402/network.ts";
import { PayerList } from "../x402/payer-list.ts";
import { isSolanaAddress } from "../x402/solana-address.ts";
import type { FacilitatorSettings } from "./facilitator/facilitator.ts";
import { readEvmAddress } from "./listener/addresses.ts";
import { PAYER_FILES_FORMAT, readPayers } from "./payers.ts";
import { GROUP, GROUP_FORM, NETWORK } from "./reading/forms.ts";
import type { Context } from "./reading/context.ts";
import { didYouMean } from "./reading/suggestion.ts";
import type { Path } from "./reading/tree.ts";
import type { Assets } from "./routes/accepted.ts";
import {
  bad,
  DURATION,
  fault,
  LASTING,
  LASTING_FORM,
  readDuration,
  readLasting,
  readNetwork,
} from "./reading/reading.ts";
import { ok } from "../x402/result.ts";
import {
  described,
  listOf,
  map,
  matching,
  named,
  optional,
  plainText,
  reader,
  text,
  textLike,
  whole,
} from "./reading/shapes.ts";

export interface MemberSettings {
  /** Who is in each group that is listed, by its name. */
  readonly groups: Readonly<Record<string, PayerList>>;
  /** What its members hold, of each other group, by its name. */
  readonly holders: Readonly<Record<string, HolderTerms>>;
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

/** An amount of tokens. */
const TOKENS = /^[0-9]{1,60}(?:\.[0-9]{1,77})?$/;

const entry = plainText.min(1, "must be an address, or the path of a file");
/** Each of these is a question to a chain for whoever signs in. */
const MAX_HOLDER_GROUPS = 8;
/** How long who held it counts may be written. */
const [LEAST_FOR_MS, MOST_FOR_MS] = [1_000, 24 * 60 * 60_000];
const MAX_DECIMALS = 77;

const TOKEN_FORM = "must be the address of a token, in quotes, or the symbol of one that is known";
const AMOUNT_FORM = "must be a number of tokens above 0, such as 1 or 0.5";
const FOR_FORM = "must be a time from 1s to 24h, such as 5m";

const holder = map({
  token: described(
    textLike(/^(?:0x[0-9a-fA-F]{40}|[A-Za-z][A-Za-z0-9.]{0,15})$/, TOKEN_FORM, "USDC"),
    "ERC-20 or ERC-721: its address, or USDC, or a symbol of `assets`.",
  ),
  network: described(
    text(readNetwork, NETWORK),
    "Where it is held: an EVM network whose RPC endpoints the file has.",
  ),
  atLeast: optional(
    reader(
      z.union([z.string(), z.number()], AMOUNT_FORM),
      (written) => (TOKENS.test(String(written)) ? ok(String(written)) : bad(AMOUNT_FORM)),
      { anyOf: [{ type: "number", minimum: 0 }, matching(TOKENS, AMOUNT_FORM)] },
    ),
    "How much of it, in whole tokens.",
    1,
  ),
  decimals: optional(
    whole(0, MAX_DECIMALS),
    "Of a token whose address is not known here; 0 for ERC-721. `coinslot doctor` asks the token.",
  ),
  for: optional(
    text(
      (written) => {
        const read = readDuration(written);
        const isOne = read.ok && read.value >= LEAST_FOR_MS && read.value <= MOST_FOR_MS;
        return isOne ? read : bad(FOR_FORM);
      },
      matching(DURATION, FOR_FORM, "5m"),
      FOR_FORM,
    ),
    "How long who has held it counts as holding it. Who passes it on meanwhile, and who has got it, are both members.",
    "5m",
  ),
});

const group = z.union(
  [entry.transform((one): readonly string[] => [one]), listOf(entry), holder],
  "must be an address or the path of a file, a list of them, or a map of what its members hold",
);

export const members = named(group, GROUP_FORM);

export const MEMBERS_USAGE =
  "Groups of payers by name, for `prices` of routes: each an address or a file, or a list of both; or whoever holds a token: " +
  "{ token: USDC, network: base, atLeast: 100 }. Who signs in with such an account is in the group. " +
  PAYER_FILES_FORMAT;

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
  chains: KnownChains,
  context: Context,
): MemberSettings {
  const areScreened = ["deny", "allow"].some((key) => context.tree.has(["payers", key]));
  const { tree, problems } = context;
  const groups: Record<string, PayerList> = {};
  const holders: Record<string, HolderTerms> = {};
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
    // Absent where the value was refused.
    const entries = written[name];
    if (entries !== undefined && "token" in entries) {
      const terms = resolveHolders(entries, place, chains, context);
      if (terms !== null) holders[name] = terms;
      continue;
    }
    const list = new PayerList("that");
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
  const held = Object.keys(holders);
  if (held.length > MAX_HOLDER_GROUPS) {
    const found = `must have at most ${MAX_HOLDER_GROUPS} groups of what is held`;
    problems.error(["members", held[MAX_HOLDER_GROUPS] ?? ""], fault("bad-value", found));
  }
  return { groups, holders, areScreened, files };
}

/** What of the file says which tokens there are, and which chains can be asked. */
interface KnownChains {
  readonly assets: Pick<Assets, "find" | "findByAddress" | "symbols" | "wasRefused">;
  readonly facilitator: Pick<FacilitatorSettings, "embedded" | "observed">;
}

function resolveHolders(
  { token: written, network, atLeast, decimals: told, for: forMs }: z.output<typeof holder>,
  place: Path,
  { assets, facilitator: { embedded, observed } }: KnownChains,
  { problems, tree }: Context,
): HolderTerms | null {
  if (networkOf(network).kind !== "evm") {
    const message = "is not asked who holds a token: only EVM networks are";
    problems.error([...place, "network"], fault("bad-value", message, "list its payers"));
    return null;
  }
  if (![...embedded, ...observed].some((each) => each.network === network)) {
    const message = "has no endpoint here that could be asked who holds a token";
    const hint = `add facilitator.rpc.${network}: [URL], or settle on it here`;
    // Where the endpoints were refused that is said.
    if (tree.intact(["facilitator"])) {
      problems.error([...place, "network"], fault("no-rpc", message, hint));
    }
    return null;
  }
  const token = tokenOf(written, network, [...place, "token"], { assets, problems });
  if (token === null) return null;
  const { address, decimals = told } = token;
  if (decimals === undefined) {
    const message = "is missing: nothing here knows what a whole one of that token is";
    const hint = "add decimals: 0 for ERC-721, and what decimals() says for ERC-20, often 18";
    problems.error([...place, "token"], fault("missing-key", `decimals ${message}`, hint));
    return null;
  }
  if (token.decimals !== undefined && told !== undefined && told !== token.decimals) {
    const message = `is not what that token has: ${token.decimals}`;
    problems.error([...place, "decimals"], fault("bad-value", message, "remove it"));
    return null;
  }
  const least = parseDollars(`$${atLeast}`, decimals);
  if (!least.ok) {
    const isZero = least.error.kind === "zero";
    const message = isZero ? "must be more than 0: else anybody is a member" : AMOUNT_FORM;
    const hint =
      least.error.kind === "too-precise"
        ? `write at most ${decimals} digits behind the point`
        : undefined;
    problems.error([...place, "atLeast"], fault("bad-value", message, hint));
    return null;
  }
  const { symbol = null } = token;
  return { network, token: checksumAddress(address), least: least.value, decimals, symbol, forMs };
}

/** Null: it is said what is wrong with it. */
function tokenOf(
  written: string,
  network: NetworkName,
  at: Path,
  { assets, problems }: Pick<KnownChains, "assets"> & Pick<Context, "problems">,
): { readonly address: string; readonly decimals?: number; readonly symbol?: string } | null {
  if (!isEvmAddress(written)) {
    const asset = assets.find(written, network);
    if (asset !== undefined) return asset;
    if (assets.wasRefused(written, network)) return null;
    const hint = didYouMean(written, assets.symbols(network)) ?? "write its address";
    problems.error(at, fault("unknown-asset", `is no token that is known on ${network}`, hint));
    return null;
  }
  const read = readEvmAddress(written);
  if (!read.ok) {
    problems.error(at, read.error);
    return null;
  }
  return assets.findByAddress(written, network) ?? { address: written };
}

/** With its chain, too (CAIP-10). */
function isAddress(entry: string): boolean {
  const address = /^(?:eip155|solana):[-\w]{1,32}:(.*)$/.exec(entry)?.[1] ?? entry;
  return isEvmAddress(address) || isSolanaAddress(address);
}
