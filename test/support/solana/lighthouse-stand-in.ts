/**
 * A program for Lighthouse's address, which cannot be had here: it judges the first assertion of an
 * instruction where that is about the lamports of the account, or, as attackers would have it, about the
 * clock, and is content with everything else. Its data is Lighthouse's, but for the clock's, whose account
 * has to be there: `15, log level, u64 slot` fails in every later slot.
 *
 * The runtime maps the number of accounts, the only account, and behind it the instruction's data:
 *
 *     mov   r0, 0
 *     ldxdw r3, [r1]
 *     jeq   r3, 0, end         ; no account
 *     ldxdw r2, [r1+88]        ; bytes of the account's data, rounded up to eight
 *     add   r2, 7
 *     and   r2, -8
 *     add   r2, r1             ; the instruction's data is at r2+10352 from now on
 *     ldxb  r3, [r2+10352]     ; which instruction
 *     jeq   r3, 15, clock
 *     jne   r3, 6, end         ; not AssertAccountInfoMulti
 *     ldxb  r3, [r2+10355]
 *     jne   r3, 0, end         ; the first assertion is not about lamports
 *     ldxdw r4, [r2+10356]     ; so many are asserted
 *     ldxdw r5, [r1+80]        ; so many are there
 *     jge   r5, r4, end
 *     mov   r0, 1
 *     exit
 *   clock:
 *     ldxdw r4, [r2+10354]     ; the last slot
 *     ldxdw r5, [r1+96]        ; this slot
 *     jle   r5, r4, end
 *     mov   r0, 1
 *   end:
 *     exit
 */

/** What a failed assertion is to the runtime. */
export const ASSERTION_FAILED = 1;

/** Each: opcode, registers (source, destination), offset, immediate value. */
const CODE: readonly (readonly [number, number, number, number])[] = [
  [0xb7, 0x00, 0, 0],
  [0x79, 0x13, 0, 0],
  [0x15, 0x03, 18, 0],
  [0x79, 0x12, 88, 0],
  [0x07, 0x02, 0, 7],
  [0x57, 0x02, 0, -8],
  [0x0f, 0x12, 0, 0],
  [0x71, 0x23, 10_352, 0],
  [0x15, 0x03, 8, 15],
  [0x55, 0x03, 11, 6],
  [0x71, 0x23, 10_355, 0],
  [0x55, 0x03, 9, 0],
  [0x79, 0x24, 10_356, 0],
  [0x79, 0x15, 80, 0],
  [0x3d, 0x45, 6, 0],
  [0xb7, 0x00, 0, ASSERTION_FAILED],
  [0x95, 0x00, 0, 0],
  [0x79, 0x24, 10_354, 0],
  [0x79, 0x15, 96, 0],
  [0xbd, 0x45, 1, 0],
  [0xb7, 0x00, 0, ASSERTION_FAILED],
  [0x95, 0x00, 0, 0],
];

const INSTRUCTION_BYTES = 8;
const HEADER_BYTES = 64;
const SECTION_BYTES = 64;
const SECTION_NAMES = "\0.text\0.shstrtab\0";
/** Executable and in memory. */
const TEXT_FLAGS = 6n;

/** The whole program, as a loader takes it. */
export function lighthouseStandIn(): Uint8Array {
  const code = Buffer.alloc(CODE.length * INSTRUCTION_BYTES);
  for (const [index, [opcode, registers, offset, value]] of CODE.entries()) {
    const at = index * INSTRUCTION_BYTES;
    code.writeUInt8(opcode, at);
    code.writeUInt8(registers, at + 1);
    code.writeInt16LE(offset, at + 2);
    code.writeInt32LE(value, at + 4);
  }
  const names = Buffer.alloc(Math.ceil(SECTION_NAMES.length / 8) * 8);
  names.write(SECTION_NAMES, "latin1");
  const namesAt = HEADER_BYTES + code.length;
  const sectionsAt = namesAt + names.length;
  return Buffer.concat([
    elfHeader(sectionsAt),
    code,
    names,
    Buffer.alloc(SECTION_BYTES),
    section(".text", { type: 1, at: HEADER_BYTES, bytes: code.length }),
    section(".shstrtab", { type: 3, at: namesAt, bytes: SECTION_NAMES.length }),
  ]);
}

/** A shared object for sBPF of the first version, without segments. */
function elfHeader(sectionsAt: number): Buffer {
  const header = Buffer.alloc(HEADER_BYTES);
  header.set([0x7f, 0x45, 0x4c, 0x46, 2, 1, 1]);
  header.writeUInt16LE(3, 16);
  header.writeUInt16LE(247, 18);
  header.writeUInt32LE(1, 20);
  header.writeBigUInt64LE(BigInt(HEADER_BYTES), 24);
  header.writeBigUInt64LE(BigInt(HEADER_BYTES), 32);
  header.writeBigUInt64LE(BigInt(sectionsAt), 40);
  header.writeUInt16LE(HEADER_BYTES, 52);
  header.writeUInt16LE(56, 54);
  header.writeUInt16LE(0, 56);
  header.writeUInt16LE(SECTION_BYTES, 58);
  header.writeUInt16LE(3, 60);
  header.writeUInt16LE(2, 62);
  return header;
}

interface Section {
  /** 1: a program's; 3: names. */
  readonly type: 1 | 3;
  readonly at: number;
  readonly bytes: number;
}

function section(name: string, { type, at, bytes }: Section): Buffer {
  const isCode = type === 1;
  const header = Buffer.alloc(SECTION_BYTES);
  header.writeUInt32LE(SECTION_NAMES.indexOf(name), 0);
  header.writeUInt32LE(type, 4);
  header.writeBigUInt64LE(isCode ? TEXT_FLAGS : 0n, 8);
  header.writeBigUInt64LE(isCode ? BigInt(at) : 0n, 16);
  header.writeBigUInt64LE(BigInt(at), 24);
  header.writeBigUInt64LE(BigInt(bytes), 32);
  header.writeBigUInt64LE(1n, 48);
  return header;
}
