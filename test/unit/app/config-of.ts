/** Configurations from text, and a key for their networks on Solana. */
import { formatProblems, parseConfig, type Config } from "../../../src/config/config.ts";
import { encodeBase58 } from "../../../src/x402/solana-address.ts";

/** From RFC 8032, section 7.1, test 1: a seed, and the public key that belongs to it. */
const SEED = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
const PUBLIC = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";

export const SOLANA_ADDRESS = encodeBase58(Buffer.from(PUBLIC, "hex"));
const SOLANA_KEY = encodeBase58(Buffer.from(SEED + PUBLIC, "hex"));
const EVM_KEY = `0x${"5a".repeat(32)}`;

const KEYS = { SOLANA_KEY, EVM_KEY };

/** The accepted configuration; its keys are `env:SOLANA_KEY` and `env:EVM_KEY` unless others are given. */
export function configOf(text: string, env: Readonly<Record<string, string>> = KEYS): Config {
  const parsed = parseConfig(text, { file: "x.yaml", env, readFile });
  if (!parsed.ok) throw new Error(formatProblems(parsed.problems, parsed.text));
  return parsed.config;
}

function readFile(): never {
  throw new Error("the test configuration names no files");
}
