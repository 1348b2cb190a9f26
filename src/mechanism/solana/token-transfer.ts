/** The one token transfer of a payment (V23, V24): from the payer's tokens to the payee, to the last unit. */
import type { Found } from "./message.ts";
import type { SolanaAsset } from "../../x402/network.ts";
import { err, ok, type Result } from "../../x402/result.ts";
import { unitsText } from "../../x402/token.ts";

/** What the transfer has to do. Addresses in base58. */
export interface Expected {
  /** The second signer. */
  readonly payer: string;
  readonly token: Pick<SolanaAsset, "address" | "symbol" | "decimals">;
  /** The program that owns the mint. */
  readonly tokenProgram: string;
  /** payTo's associated account for the asset. */
  readonly destination: string;
  /** Atomic units. */
  readonly amount: bigint;
}

/** A transfer that does it. */
export interface Transfer {
  /** The token account that pays, base58. */
  readonly source: string;
  /** Its place in the message, from 0. */
  readonly index: number;
}

/** TransferChecked: one byte of kind, eight of amount, one of decimals. */
const DATA_BYTES = 10;
const AMOUNT_OFFSET = 1;
const DECIMALS_OFFSET = 9;

/** Source, mint, destination, authority; further ones would be a multisignature's, or a transfer hook's. */
const ACCOUNTS = 4;

/** The transfer among a message's token instructions, or a sentence about the first rule that is broken. */
export function readTransfer(
  transfers: readonly Found[],
  expected: Expected,
): Result<Transfer, string> {
  const [transfer] = transfers;
  if (transfer === undefined || transfers.length > 1) {
    return err(
      `the transaction has ${transfers.length} token transfers; exactly 1 is needed, a TransferChecked`,
    );
  }
  const { index, accounts, data } = transfer;
  const [source] = accounts;
  if (data.length !== DATA_BYTES || accounts.length !== ACCOUNTS || source === undefined) {
    return err(
      `instructions[${index}] has ${data.length} bytes of data and ${accounts.length} accounts; a TransferChecked has ${DATA_BYTES} and ${ACCOUNTS}`,
    );
  }
  const fault = accountFault(transfer, expected) ?? dataFault(data, expected);
  if (fault !== undefined) return err(`instructions[${index}], the token transfer, ${fault}`);
  return ok({ source, index });
}

function accountFault({ program, accounts }: Found, expected: Expected): string | undefined {
  const [source, mint, destination, authority] = accounts;
  const { payer, token, tokenProgram } = expected;
  const { address: asset } = token;
  if (authority !== payer) {
    return `is authorized by ${authority}; it must be the second signer, ${payer}`;
  }
  if (mint !== asset) return `moves tokens of the mint ${mint}; the asset is ${asset}`;
  if (program !== tokenProgram) {
    return `calls ${program}; the program of the asset's mint is ${tokenProgram}`;
  }
  if (destination !== expected.destination) {
    return `pays ${destination}; payTo's associated account for the asset is ${expected.destination}`;
  }
  return source === destination ? "pays the account that it takes from" : undefined;
}

function dataFault(data: Uint8Array, { amount, token }: Expected): string | undefined {
  const view = new DataView(data.buffer, data.byteOffset, data.length);
  const moved = view.getBigUint64(AMOUNT_OFFSET, true);
  if (moved !== amount) {
    return `moves ${unitsText([moved], token)}; it must be exactly ${unitsText([amount], token)}`;
  }
  const stated = view.getUint8(DECIMALS_OFFSET);
  const { decimals } = token;
  return stated === decimals ? undefined : `states ${stated} decimals; the mint has ${decimals}`;
}
