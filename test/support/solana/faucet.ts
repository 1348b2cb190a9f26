/** Who gives away lamports: an account of the cluster's own, whose transfers are ordinary transactions. */
import { generateKeyPairSync, randomBytes, sign, type KeyObject } from "node:crypto";
import { fromBase58, toBase58 } from "./base58.ts";
import type { Cluster } from "./cluster.ts";
import { u32, u64 } from "./token-layout.ts";
import { readTransaction, type WireTransaction } from "./wire-transaction.ts";

const SYSTEM_PROGRAM = "11111111111111111111111111111111";
const TRANSFER = 2;
/** Half of all lamports that could exist. */
const WEALTH = 2n ** 62n;
/** Last bytes of a DER-encoded Ed25519 public key: the key. */
const KEY_BYTES = 32;
const MEMO_PROGRAM = "MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr";

const faucets = new WeakMap<Cluster, { readonly key: KeyObject; readonly address: string }>();

/** A signed transfer; no two are alike, so that asking twice gives twice. */
export function airdropTransaction(
  cluster: Cluster,
  { to, lamports, blockhash }: { to: string; lamports: bigint; blockhash: string },
): WireTransaction {
  const { key, address } = faucetOf(cluster);
  const transfer = Buffer.concat([u32(TRANSFER), u64(lamports)]);
  const memo = Buffer.from(randomBytes(8).toString("hex"));
  const isSelf = to === address;
  const keys = isSelf ? [address] : [address, to];
  const programs = [SYSTEM_PROGRAM, MEMO_PROGRAM];
  const message = Buffer.concat([
    Buffer.from([1, 0, programs.length, keys.length + programs.length]),
    ...[...keys, ...programs].map(fromBase58),
    fromBase58(blockhash),
    Buffer.from([2, keys.length, 2, 0, keys.length - 1, transfer.length]),
    transfer,
    Buffer.from([keys.length + 1, 0, memo.length]),
    memo,
  ]);
  return readTransaction(Buffer.concat([Buffer.from([1]), sign(null, message, key), message]));
}

function faucetOf(cluster: Cluster): { readonly key: KeyObject; readonly address: string } {
  let faucet = faucets.get(cluster);
  if (faucet === undefined) {
    const { privateKey, publicKey } = generateKeyPairSync("ed25519");
    const der = publicKey.export({ format: "der", type: "spki" });
    const address = toBase58(new Uint8Array(der.subarray(-KEY_BYTES)));
    faucet = { key: privateKey, address };
    faucets.set(cluster, faucet);
    const data = new Uint8Array();
    cluster.setAccount(address, {
      lamports: WEALTH,
      data,
      owner: SYSTEM_PROGRAM,
      executable: false,
    });
  }
  return faucet;
}
