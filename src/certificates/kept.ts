/** What is kept in the ledger for certificates, as values: each has its name there, and is JSON. */
import type { KeptCertificates, KeptText } from "../ledger/certificates.ts";
import type { ToldCertificate, ToldChallenge } from "./told.ts";

/** By name; all that is known of one is in one row. */
interface KeptKinds {
  /** Of a directory. */
  readonly account: KeptAccount;
  /** Of a domain. */
  readonly certificate: ToldCertificate & { readonly directory: string };
  /** Of a domain, while the authority looks. */
  readonly challenge: ToldChallenge;
  /** Of a domain: what was asked for and not had yet, with the key that is for it. */
  readonly order: OpenOrder;
  /** Of a domain, until there is a certificate. */
  readonly failure: KeptFailure;
}

type Kind = keyof KeptKinds;

export interface KeptAccount {
  /** By which the authority knows us, PEM. */
  readonly key: string;
  /** When an account was last asked for, milliseconds since the epoch; none: by an earlier version. */
  readonly askedMs?: number;
}

export interface OpenOrder {
  readonly directory: string;
  readonly url: string;
  readonly key: string;
}

export interface KeptFailure {
  readonly directory: string;
  /** In a row. */
  readonly failures: number;
  /** Milliseconds since the epoch: nothing is asked before. */
  readonly againMs: number;
  readonly reason: string;
}

/** A row that cannot be read is none: it is asked for anew. */
export class KeptTexts {
  readonly #rows: ReadonlyMap<string, string>;

  constructor(rows: readonly KeptText[]) {
    this.#rows = new Map(rows.map(({ name, text }) => [name, text]));
  }

  get<Of extends Kind>(kind: Of, of: string): KeptKinds[Of] | undefined {
    // Nobody but `keep` writes them.
    return read(this.#rows.get(`${kind} ${of}`)) as KeptKinds[Of] | undefined;
  }

  all<Of extends Kind>(kind: Of): readonly KeptKinds[Of][] {
    return [...this.#rows].flatMap(([name, text]) => {
      const value = name.startsWith(`${kind} `) ? read(text) : undefined;
      return value === undefined ? [] : [value as KeptKinds[Of]];
    });
  }
}

function read(text: string | undefined): unknown {
  try {
    return text === undefined ? undefined : JSON.parse(text);
  } catch {
    return undefined;
  }
}

export async function readKept(store: Pick<KeptCertificates, "list">): Promise<KeptTexts> {
  return new KeptTexts(await store.list());
}

export function keep<Of extends Kind>(
  store: Pick<KeptCertificates, "put">,
  [kind, of]: readonly [Of, string],
  value: KeptKinds[Of],
): Promise<void> {
  return store.put({ name: `${kind} ${of}`, text: JSON.stringify(value) });
}

export function forget(
  store: Pick<KeptCertificates, "remove">,
  kind: Kind,
  of: string,
): Promise<void> {
  return store.remove(`${kind} ${of}`);
}
