/**
 * Valid transactions of every version, built by the public client library: what a decoder must read, and what
 * mutations start from. Seeded, so that a failure can be repeated.
 */
import {
  AccountRole,
  address,
  appendTransactionMessageInstructions,
  blockhash,
  compileTransaction,
  compressTransactionMessageUsingAddressLookupTables,
  createTransactionMessage,
  getAddressDecoder,
  getBase58Decoder,
  getTransactionEncoder,
  pipe,
  setTransactionMessageConfig,
  setTransactionMessageFeePayer,
  setTransactionMessageLifetimeUsingBlockhash,
  signatureBytes,
  type Address,
  type AddressesByLookupTableAddress,
  type Instruction,
} from "@solana/kit";
import { Random } from "../../../simulation/random.ts";

/** A transaction with a name, and what its lookup tables hold. */
export interface CorpusMember {
  readonly name: string;
  readonly bytes: Uint8Array;
  readonly tables: AddressesByLookupTableAddress;
}

const COMPUTE_BUDGET = address("ComputeBudget111111111111111111111111111111");
const TOKEN = address("TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA");
const MEMO = address("MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr");
const LIGHTHOUSE = address("L2TExMFKdjpN9kozasaurPirfHy9P8sbXoAN1qA3S95");
const { READONLY, WRITABLE, READONLY_SIGNER, WRITABLE_SIGNER } = AccountRole;
const ADDRESS_BYTES = 32;
const SIGNATURE_BYTES = 64;

/** What a payment is made of. */
interface Parties {
  readonly feePayer: Address;
  readonly payer: Address;
  readonly source: Address;
  readonly mint: Address;
  readonly destination: Address;
}

function randomBytes(random: Random, length: number): Uint8Array {
  return Uint8Array.from({ length }, () => random.between(0, 255));
}

function randomAddress(random: Random): Address {
  return getAddressDecoder().decode(randomBytes(random, ADDRESS_BYTES));
}

const limit = { programAddress: COMPUTE_BUDGET, data: Uint8Array.of(2, 0x40, 0x0d, 3, 0) };
const price = { programAddress: COMPUTE_BUDGET, data: Uint8Array.of(3, 1, 0, 0, 0, 0, 0, 0, 0) };

function transfer({ source, mint, destination, payer }: Parties): Instruction {
  const data = Uint8Array.of(12, 0x10, 0x27, 0, 0, 0, 0, 0, 0, 6);
  const accounts = [
    { address: source, role: WRITABLE },
    { address: mint, role: READONLY },
    { address: destination, role: WRITABLE },
    { address: payer, role: READONLY_SIGNER },
  ];
  return { programAddress: TOKEN, accounts, data };
}

function memo(random: Random, length: number): Instruction {
  return { programAddress: MEMO, data: randomBytes(random, length) };
}

function guard(random: Random, ...accounts: readonly Address[]): Instruction {
  const metas = accounts.map((each) => ({ address: each, role: READONLY }));
  return { programAddress: LIGHTHOUSE, accounts: metas, data: randomBytes(random, 20) };
}

/** `count` accounts of that role, named by one instruction of a program of their own. */
function crowd(random: Random, count: number, role: AccountRole): Instruction {
  const accounts = Array.from({ length: count }, () => ({ address: randomAddress(random), role }));
  return { programAddress: randomAddress(random), accounts, data: randomBytes(random, 3) };
}

interface Sketch {
  readonly name: string;
  readonly version: "legacy" | 0 | 1;
  readonly instructions: readonly Instruction[];
  readonly tables?: AddressesByLookupTableAddress;
  readonly config?: Parameters<typeof setTransactionMessageConfig>[0];
}

function compile(random: Random, feePayer: Address, sketch: Sketch): CorpusMember {
  const { name, version, instructions, tables = {}, config = {} } = sketch;
  const lifetime = {
    blockhash: blockhash(getBase58Decoder().decode(randomBytes(random, ADDRESS_BYTES))),
    lastValidBlockHeight: 1n,
  };
  const built = (): ReturnType<typeof compileTransaction> => {
    switch (version) {
      case "legacy":
        return pipe(
          createTransactionMessage({ version }),
          (empty) => setTransactionMessageFeePayer(feePayer, empty),
          (paid) => setTransactionMessageLifetimeUsingBlockhash(lifetime, paid),
          (timed) => appendTransactionMessageInstructions(instructions, timed),
          compileTransaction,
        );
      case 0:
        return pipe(
          createTransactionMessage({ version }),
          (empty) => setTransactionMessageFeePayer(feePayer, empty),
          (paid) => setTransactionMessageLifetimeUsingBlockhash(lifetime, paid),
          (timed) => appendTransactionMessageInstructions(instructions, timed),
          (long) => compressTransactionMessageUsingAddressLookupTables(long, tables),
          (short) => compileTransaction(short),
        );
      case 1:
        return pipe(
          createTransactionMessage({ version }),
          (empty) => setTransactionMessageConfig(config, empty),
          (configured) => setTransactionMessageFeePayer(feePayer, configured),
          (paid) => setTransactionMessageLifetimeUsingBlockhash(lifetime, paid),
          (timed) => appendTransactionMessageInstructions(instructions, timed),
          compileTransaction,
        );
    }
  };
  const { messageBytes, signatures } = built();
  const signed = Object.keys(signatures).map(
    (signer) => [signer, signatureBytes(randomBytes(random, SIGNATURE_BYTES))] as const,
  );
  const transaction = { messageBytes, signatures: Object.fromEntries(signed) };
  return { name, bytes: new Uint8Array(getTransactionEncoder().encode(transaction)), tables };
}

/** Instructions of a payment, from the plainest to what today's wallets make of it. */
function payments(random: Random, parties: Parties): Record<string, readonly Instruction[]> {
  const { feePayer, payer, source, destination } = parties;
  const paying = transfer(parties);
  return {
    plain: [paying],
    official: [limit, price, paying, memo(random, 32)],
    phantom: [
      limit,
      price,
      guard(random, feePayer),
      guard(random, payer),
      guard(random, source, payer),
      paying,
      memo(random, 32),
      guard(random, source, destination),
    ],
    long: [limit, price, paying, memo(random, 300)],
    nothing: [],
    crowded: [paying, crowd(random, 12, WRITABLE), crowd(random, 6, READONLY)],
    signed: [paying, crowd(random, 2, WRITABLE_SIGNER), crowd(random, 2, READONLY_SIGNER)],
    many: Array.from({ length: 64 }, () => memo(random, 1)),
  };
}

/** What only version 0 can say. */
function lookups(random: Random, parties: Parties): readonly Sketch[] {
  const { source, mint, destination } = parties;
  const [many, few] = [crowd(random, 35, WRITABLE), crowd(random, 18, READONLY)];
  const tableOf = (...instructions: readonly Instruction[]): Address[] => [
    randomAddress(random),
    ...instructions.flatMap(({ accounts = [] }) => accounts.map((account) => account.address)),
  ];
  const paying = transfer(parties);
  const version = 0;
  return [
    {
      name: "one table",
      version,
      instructions: [limit, price, paying, memo(random, 10)],
      tables: { [randomAddress(random)]: [destination, randomAddress(random), mint, source] },
    },
    {
      name: "two tables",
      version,
      instructions: [paying, many, few, guard(random, destination)],
      tables: {
        [randomAddress(random)]: [...tableOf(many), mint],
        [randomAddress(random)]: tableOf(few),
      },
    },
    {
      name: "a table for reading",
      version,
      instructions: [paying, few],
      tables: { [randomAddress(random)]: tableOf(few) },
    },
  ];
}

/** What only version 1 can say. */
function configured(random: Random, parties: Parties): readonly Sketch[] {
  const instructions = [transfer(parties), memo(random, 32)];
  const version = 1;
  const full = {
    priorityFeeLamports: 2n ** 40n + 5n,
    computeUnitLimit: 200_000,
    loadedAccountsDataSizeLimit: 2 ** 31 + 1,
    heapSize: 64 * 1024,
  };
  return [
    { name: "a fee", version, instructions, config: { priorityFeeLamports: 1_000n } },
    { name: "a limit", version, instructions, config: { computeUnitLimit: 1_400_000 } },
    { name: "a full configuration", version, instructions, config: full },
    { name: "a heap", version, instructions, config: { heapSize: 32 * 1024 } },
    { name: "a long memo", version, instructions: [...instructions, memo(random, 3_500)] },
    {
      name: "everything at its limit",
      version,
      instructions: [
        crowd(random, 11, READONLY_SIGNER),
        crowd(random, 49, READONLY),
        ...Array.from({ length: 62 }, () => memo(random, 2)),
      ],
      config: full,
    },
  ];
}

/** The whole corpus of a seed; the same for the same seed. */
export function corpusOf(seed: number): readonly CorpusMember[] {
  const random = new Random(seed);
  const some = (): Address => randomAddress(random);
  const feePayer = some();
  const parties = {
    feePayer,
    payer: some(),
    source: some(),
    mint: some(),
    destination: some(),
  };
  const versions = ["legacy", 0, 1] as const;
  const shared = versions.flatMap((version) =>
    Object.entries(payments(random, parties)).map(([name, instructions]) => ({
      name: `${name}, version ${version}`,
      version,
      instructions,
    })),
  );
  return [...shared, ...lookups(random, parties), ...configured(random, parties)].map((sketch) =>
    compile(random, feePayer, sketch),
  );
}
