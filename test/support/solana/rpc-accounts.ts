/** RPC methods that read accounts and token balances, as of the slot of the asked commitment. */
import {
  askedEncoding,
  askedSlice,
  encodeAccount,
  type AccountEncoding,
  type EncodedAccount,
} from "./account-encoding.ts";
import { fromBase58 } from "./base58.ts";
import type { Block } from "./cluster.ts";
import { invalidParams } from "./rpc-error.ts";
import { inContext, type Call, type Method, type View } from "./rpc-method.ts";
import { Config } from "./rpc-params.ts";
import type { StoredAccount } from "./runtime.ts";
import { tokenAmount } from "./token-balances.ts";
import {
  isTokenProgram,
  readMint,
  readTokenAccount,
  TOKEN_2022_PROGRAM,
  TOKEN_PROGRAM,
} from "./token-layout.ts";

/** Accounts that one call may ask for. */
const MAX_MULTIPLE_ACCOUNTS = 100;

export const accountMethods: Readonly<Record<string, Method>> = {
  getAccountInfo({ params, view }) {
    const address = params.address(0);
    const config = params.config(1);
    const block = view.asked(config);
    return inContext(block, encoder({ view, block, config }, "binary")(address));
  },
  getMultipleAccounts({ params, view }) {
    if (params.list(0).length > MAX_MULTIPLE_ACCOUNTS) {
      throw invalidParams(`Too many inputs provided; max ${MAX_MULTIPLE_ACCOUNTS}`);
    }
    const addresses = params.addresses(0);
    const config = params.config(1);
    const block = view.asked(config);
    return inContext(block, addresses.map(encoder({ view, block, config }, "base64")));
  },
  getBalance({ params, view }) {
    const address = params.address(0);
    const block = view.asked(params.config(1));
    return inContext(block, view.account(address, block)?.lamports ?? 0n);
  },
  getTokenAccountBalance,
  getTokenAccountsByOwner,
  getProgramAccounts,
};

interface Reading {
  readonly view: View;
  readonly block: Block;
  readonly config: Config;
}

function encoder(
  { view, block, config }: Reading,
  fallback: AccountEncoding,
): (address: string) => EncodedAccount | null {
  const encoding = askedEncoding(config, fallback);
  const slice = askedSlice(config);
  const accountOf = (address: string): StoredAccount | null => view.account(address, block);
  return (address) => {
    const account = accountOf(address);
    return account && encodeAccount(account, { encoding, ...slice, accountOf });
  };
}

function getTokenAccountBalance({ params, view }: Call): unknown {
  const address = params.address(0);
  const block = view.asked(params.config(1));
  const account = view.account(address, block);
  if (account === null) throw invalidParams("Invalid param: could not find account");
  const token = readTokenAccount(account);
  if (token === null) throw invalidParams("Invalid param: not a Token account");
  const mint = readMint(view.account(token.mint, block));
  if (mint === null) throw invalidParams("Invalid param: could not find mint");
  return inContext(block, tokenAmount(token.amount, mint.decimals));
}

function getTokenAccountsByOwner({ params, view }: Call): unknown {
  const owner = params.address(0);
  const filter = params.config(1);
  const config = params.config(2);
  const block = view.asked(config);
  const mint = filter.address("mint");
  const programs = askedPrograms(mint, filter, (address) => view.account(address, block));
  const encode = encoder({ view, block, config }, "binary");
  const found = programs
    .flatMap((program) => addressesOwnedBy(program, view))
    .filter((address) => {
      const token = readTokenAccount(view.account(address, block));
      return token?.owner === owner && (mint === undefined || token.mint === mint);
    });
  return inContext(
    block,
    found.map((pubkey) => ({ pubkey, account: encode(pubkey) })),
  );
}

function askedPrograms(
  mint: string | undefined,
  filter: Config,
  accountOf: (address: string) => StoredAccount | null,
): string[] {
  if (mint !== undefined) {
    const program = accountOf(mint)?.owner;
    if (program === undefined) throw invalidParams("Invalid param: could not find mint");
    if (!isTokenProgram(program)) throw invalidParams("Invalid param: not a Token mint");
    return [program];
  }
  const program = filter.address("programId");
  if (program === TOKEN_PROGRAM || program === TOKEN_2022_PROGRAM) return [program];
  throw invalidParams("Invalid param: unrecognized Token program id");
}

function getProgramAccounts({ params, view }: Call): unknown {
  const program = params.address(0);
  const config = params.config(1);
  const block = view.asked(config);
  const matches = config.list("filters").map((each) => filterOf(new Config(each)));
  const encode = encoder({ view, block, config }, "binary");
  const found = addressesOwnedBy(program, view)
    .filter((address) => {
      const account = view.account(address, block);
      return account?.owner === program && matches.every((isMatch) => isMatch(account.data));
    })
    .map((pubkey) => ({ pubkey, account: encode(pubkey) }));
  return config.boolean("withContext") ? inContext(block, found) : found;
}

function filterOf(filter: Config): (data: Uint8Array) => boolean {
  const size = filter.integer("dataSize");
  if (size !== undefined) return (data) => data.length === size;
  const memcmp = filter.config("memcmp");
  const text = memcmp?.string("bytes");
  if (memcmp === undefined || text === undefined) throw invalidParams("Invalid param: filter");
  const isBase64 = memcmp.string("encoding") === "base64";
  const bytes = Buffer.from(isBase64 ? Buffer.from(text, "base64") : fromBase58(text));
  const offset = memcmp.integer("offset") ?? 0;
  return (data) => bytes.equals(data.subarray(offset, offset + bytes.length));
}

function addressesOwnedBy(program: string, view: View): string[] {
  return view.cluster.runtime.accountsOwnedBy(program).map(([address]) => address);
}
