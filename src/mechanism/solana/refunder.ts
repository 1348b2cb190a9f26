/** The key that pays back on Solana: it signs transfers whose network fee our own fee payers pay. */
import { hash } from "node:crypto";
import { EXACT_SCHEME, X402_VERSION, type FacilitatorRequest } from "../../x402/x402.ts";
import type { SolanaAsset } from "../../x402/network.ts";
import type { Observer, Refunder, TransferBack } from "../mechanism.ts";
import type { RpcEndpoints } from "../rpc-endpoints.ts";
import { readAccounts, readTokenAccount, TOKEN_ACCOUNT_HEAD_BYTES } from "./accounts.ts";
import { associatedAccount } from "./associated-account.ts";
import { TOKEN_2022_PROGRAM, TOKEN_PROGRAM } from "./programs.ts";
import type { Keypair } from "./signing.ts";
import { signedByPayer } from "./transfer-message.ts";

/** So long a transaction is sure to count, milliseconds: a blockhash is valid for 150 blocks, about a minute. */
const VALID_MS = 45_000;
const TIMEOUT_SECONDS = 60;
/** Hex digits that tell a refund apart: each costs compute units. */
const MEMO_DIGITS = 32;

export interface SolanaRefunderOptions {
  readonly keypair: Keypair;
  readonly network: string;
  readonly assets: readonly SolanaAsset[];
  readonly endpoints: Pick<RpcEndpoints, "run">;
  /** Address of the account of ours that is to pay the network fee. */
  readonly feePayer: () => string;
  readonly draft: NonNullable<Observer["draft"]>;
}

export class SolanaRefunder implements Refunder {
  readonly address: string;
  readonly validMs = VALID_MS;
  readonly hasNonces = false;
  readonly #at: SolanaRefunderOptions;

  constructor(options: SolanaRefunderOptions) {
    this.#at = options;
    this.address = options.keypair.address;
  }

  has(asset: string): boolean {
    return this.#at.assets.some(({ address }) => address === asset);
  }

  /**
   * A transaction is moved once, and not after its blockhash has expired: another one is signed only then. Its memo tells
   * it apart from that of another payment of the same payer and price: the two would be moved as one.
   */
  async transfer(back: TransferBack, signal: AbortSignal): Promise<FacilitatorRequest> {
    const { keypair, network, feePayer, draft } = this.#at;
    const { asset, to, amountAtomic, payment, number, resource } = back;
    const named = hash("sha256", `coinslot refund ${number} of ${payment}`);
    const memo = named.slice(0, MEMO_DIGITS);
    const paymentRequirements = {
      scheme: EXACT_SCHEME,
      network,
      maxAmountRequired: String(amountAtomic),
      asset,
      payTo: to,
      resource,
      description: "",
      maxTimeoutSeconds: TIMEOUT_SECONDS,
      extra: { feePayer: feePayer(), memo },
    };
    const unsigned = await draft(paymentRequirements, this.address, signal);
    const transaction = signedByPayer(unsigned, (message) => keypair.sign(message));
    const paymentPayload = {
      x402Version: X402_VERSION,
      scheme: EXACT_SCHEME,
      network,
      payload: { transaction },
    };
    return { paymentPayload, paymentRequirements };
  }

  async balance(asset: string, signal: AbortSignal): Promise<bigint> {
    const { assets, endpoints } = this.#at;
    const known = assets.find(({ address }) => address === asset)?.tokenProgram ?? null;
    const programs = known === null ? [TOKEN_PROGRAM, TOKEN_2022_PROGRAM] : [known];
    const places = programs.map((program) => associatedAccount(this.address, asset, program));
    const reading = { commitment: "confirmed", maxBytes: TOKEN_ACCOUNT_HEAD_BYTES } as const;
    const found = await endpoints.run((rpc) => readAccounts(rpc, places, reading, signal), signal);
    return programs.reduce((sum, program, index) => {
      const account = readTokenAccount(found.get(places[index] ?? ""), program);
      return sum + (account?.amount ?? 0n);
    }, 0n);
  }
}
