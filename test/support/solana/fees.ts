/** What a transaction costs its fee payer, in lamports. */
import type { WireTransaction } from "./wire-transaction.ts";

const LAMPORTS_PER_SIGNATURE = 5_000n;
const MICRO_LAMPORTS = 1_000_000n;
const COMPUTE_BUDGET_PROGRAM = "ComputeBudget111111111111111111111111111111";
const SET_UNIT_LIMIT = 2;
const SET_UNIT_PRICE = 3;
/** Compute units that an instruction is granted when the transaction sets no limit. */
const UNITS_PER_INSTRUCTION = 200_000n;
const UNITS_PER_BUILTIN = 3_000n;
const MAX_UNITS = 1_400_000n;
/** Programs that are native code, and cheap. */
const BUILTINS: ReadonlySet<string> = new Set([
  COMPUTE_BUDGET_PROGRAM,
  "11111111111111111111111111111111",
  "Vote111111111111111111111111111111111111111",
  "BPFLoaderUpgradeab1e11111111111111111111111",
  "BPFLoader1111111111111111111111111111111111",
  "BPFLoader2111111111111111111111111111111111",
  "LoaderV411111111111111111111111111111111111",
  "KeccakSecp256k11111111111111111111111111111",
  "Ed25519SigVerify111111111111111111111111111",
]);
/** Its instructions carry signatures of their own, each of which is paid for. */
const PRECOMPILES: ReadonlySet<string> = new Set([
  "KeccakSecp256k11111111111111111111111111111",
  "Ed25519SigVerify111111111111111111111111111",
]);

export function feeOf(wire: WireTransaction): bigint {
  let signatures = BigInt(wire.header.signers);
  for (const { programIndex, data } of wire.instructions) {
    if (PRECOMPILES.has(wire.staticKeys[programIndex] ?? "")) signatures += BigInt(data[0] ?? 0);
  }
  return signatures * LAMPORTS_PER_SIGNATURE + priorityFee(wire);
}

/** The first signature's share of a fee comes first: this is what is paid on top. */
function priorityFee(wire: WireTransaction): bigint {
  if (wire.v1 !== null) return wire.v1.priorityFee;
  let limit: bigint | undefined;
  let price = 0n;
  let granted = 0n;
  for (const { programIndex, data } of wire.instructions) {
    const program = wire.staticKeys[programIndex] ?? "";
    granted += BUILTINS.has(program) ? UNITS_PER_BUILTIN : UNITS_PER_INSTRUCTION;
    if (program !== COMPUTE_BUDGET_PROGRAM) continue;
    const bytes = Buffer.from(data);
    if (bytes[0] === SET_UNIT_LIMIT && bytes.length >= 5) limit = BigInt(bytes.readUInt32LE(1));
    if (bytes[0] === SET_UNIT_PRICE && bytes.length >= 9) price = bytes.readBigUInt64LE(1);
  }
  const units = limit ?? granted;
  const total = (units > MAX_UNITS ? MAX_UNITS : units) * price;
  return (total + MICRO_LAMPORTS - 1n) / MICRO_LAMPORTS;
}
