/**
 * What is wrong with several files together, though each is right: one payee, one ledger. Two gateways that are
 * paid to one address and do not know of each other's sales can both be shown one payment.
 */
import type { Config, Problem } from "../../config/config.ts";
import type { CheckedFile } from "./check-report.ts";

/** A file that was accepted. */
export interface Loaded {
  readonly file: CheckedFile;
  readonly config: Config;
}

/** The files, each with what it shares with an earlier one. */
export function checkTogether(loaded: readonly Loaded[]): ReadonlyMap<CheckedFile, Problem[]> {
  return new Map(
    loaded.map(({ file, config }, index) => {
      const others = loaded.slice(0, index).filter((other) => {
        return storeOf(other.config) !== storeOf(config);
      });
      return [file, others.flatMap((other) => compare({ file, config }, other))];
    }),
  );
}

function compare({ file, config }: Loaded, other: Loaded): readonly Problem[] {
  const [payees, keys] = [payeesOf(other.config), feePayersOf(other.config)];
  const payee = [...payeesOf(config)].find((each) => payees.has(each));
  const isKeyShared = [...feePayersOf(config)].some((each) => keys.has(each));
  const shared = payee?.slice(payee.indexOf(" ") + 1) ?? "";
  return [
    ...(payee === undefined
      ? []
      : [
          problem(
            file,
            "shared-payee",
            `${shared} is paid by ${other.file.name} as well, which has another store: of two gateways that are shown ` +
              "one payment the second holds it, and where they settle through one facilitator it may sell it again",
            "one payee, one ledger: give them one PostgreSQL store, or each a payee of its own",
          ),
        ]),
    ...(isKeyShared
      ? [
          problem(
            file,
            "shared-key",
            `a Solana key pays network fees for ${other.file.name} as well, which has another store: both send the same ` +
              "transaction for one payment, the chain cannot tell them apart, and both sell",
            "one Solana key, one ledger: give each store keys of its own",
          ),
        ]
      : []),
  ];
}

function storeOf({ store }: Config): string {
  return store.kind === "sqlite" ? store.path : store.place;
}

/** `NETWORK ADDRESS` */
function payeesOf({ routes }: Config): ReadonlySet<string> {
  const offers = routes.flatMap(({ action }) => (action.kind === "priced" ? action.offers : []));
  return new Set(offers.map(({ network, payTo }) => `${network} ${payTo}`));
}

/** `NETWORK KEY`, a secret. */
function feePayersOf({ facilitator }: Config): ReadonlySet<string> {
  const solana = facilitator.embedded.filter(({ kind }) => kind === "solana");
  return new Set(
    solana.flatMap(({ network, signers }) => {
      return signers.map(({ key }) => `${network} ${key.reveal()}`);
    }),
  );
}

function problem(
  { name }: CheckedFile,
  code: string,
  message: string,
  suggestion: string,
): Problem {
  const nowhere = { line: 0, column: 0, length: 1, path: [] };
  return { severity: "warning", code, message, suggestion, file: name, ...nowhere };
}
