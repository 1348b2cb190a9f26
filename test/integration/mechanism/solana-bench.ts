/** A local node and a mechanism on it, and the steps of a settlement as a facilitator takes them. */
import { setTimeout as pause } from "node:timers/promises";
import type {
  Checked,
  Inspected,
  Confirmation,
  SignedTransaction,
} from "../../../src/mechanism/mechanism.ts";
import type { Keypair } from "../../../src/mechanism/solana/signing.ts";
import type {
  SolanaAuthorization,
  SolanaMechanismOptions,
} from "../../../src/mechanism/solana/solana.ts";
import {
  buildTransaction,
  layOut,
  testKey,
  type Payment,
  type Plan,
} from "../../support/solana-messages.ts";
import {
  devnet,
  devnetPayment,
  never,
  openSolanaMechanism,
  requestOf,
  requirementsOf,
  type SolanaMechanism,
} from "../../support/solana-requests.ts";
import { startSolanaNode, type SolanaNode } from "../../support/solana/solana-node.ts";

export const SOL = 1_000_000_000n;
/** What each buyer has, atomic units. */
export const FUNDS = 1_000_000n;
export const MINT = devnet().asset.address;
/** Pays the network fee. */
export const FEE_PAYER = testKey(1).address;

/** Milliseconds of a slot. */
const SLOT_MS = 20;
/** Between two looks, milliseconds. */
const POLL_MS = 10;
/** Long enough for any settlement here, milliseconds. */
const PATIENCE_MS = 10_000;
/** Lower keys have a meaning of their own. */
const FIRST_FRESH_KEY = 10;

export type SolanaPayment = Checked<SolanaAuthorization>;
export type ReadyPayment = Inspected<SolanaAuthorization>;

export class Bench {
  readonly node: SolanaNode;
  readonly solana: SolanaMechanism;
  /** A cent from a buyer who has {@link FUNDS} to a seller with an account; others for each test. */
  payment: Payment = devnetPayment();
  #lastKey = FIRST_FRESH_KEY;
  readonly #open: { close(): Promise<void> }[] = [];

  constructor(node: SolanaNode) {
    this.node = node;
    this.solana = this.mechanism();
  }

  /** Closed with the bench. */
  mechanism(members: Partial<SolanaMechanismOptions> = {}): SolanaMechanism {
    return this.keep(openSolanaMechanism({ rpcUrls: [this.node.rpcUrl], ...members }));
  }

  keep<Opened extends { close(): Promise<void> }>(opened: Opened): Opened {
    this.#open.push(opened);
    return opened;
  }

  /** Of nobody so far. */
  freshKey(): Keypair {
    this.#lastKey += 1;
    return testKey(this.#lastKey);
  }

  /** Another buyer and another seller; no fault is left, and nothing counted. */
  async renew(): Promise<void> {
    const { node } = this;
    this.payment = devnetPayment({ payer: this.freshKey(), payTo: this.freshKey().address });
    await node.fundToken({ mint: MINT, owner: this.payment.payer.address, amount: FUNDS });
    await node.fundToken({ mint: MINT, owner: this.payment.payTo, amount: 0n });
    node.lift();
    node.resetCalls();
  }

  /** What `@x402/svm` builds, with the newest blockhash. */
  plan(changes: Partial<Plan> = {}, of = this.payment): Plan {
    return { ...layOut("svm", of), blockhash: this.node.blockhash, ...changes };
  }

  /** Checks it; throws where it is refused. */
  accept(signed: Plan, by = this.solana, wanted = this.payment): SolanaPayment {
    const request = requestOf(buildTransaction(signed), requirementsOf(wanted));
    const checked = by.check(request, 0);
    if (!checked.ok) throw new Error(checked.error.detail);
    if (checked.value.fault !== null) throw new Error(checked.value.fault.detail);
    return checked.value;
  }

  /** "valid", or the code and detail of the refusal. */
  async verify(signed: Plan, by = this.solana, wanted = this.payment): Promise<string> {
    const verdict = await by.inspect(this.accept(signed, by, wanted), never);
    return verdict.ok ? "valid" : `${verdict.error.code}: ${verdict.error.detail}`;
  }

  /** Finds it good. */
  async inspect(checked: SolanaPayment, by = this.solana): Promise<ReadyPayment> {
    const inspected = await by.inspect(checked, never);
    if (!inspected.ok) throw new Error(inspected.error.detail);
    return inspected.value;
  }

  async sign(ready: ReadyPayment, by = this.solana): Promise<SignedTransaction> {
    const account = by.accountFor(ready) ?? "";
    const { draft } = await by.prepare([ready], account, never);
    if (draft === undefined) throw new Error("nothing was drafted");
    return draft.sign(await by.accountNonce(account, never));
  }

  /** Sends it, and looks until it is decided. */
  async settle(
    checked: SolanaPayment,
    signed: SignedTransaction,
    by = this.solana,
  ): Promise<Confirmation> {
    await by.broadcast(signed, never);
    const submission = { variants: [signed], authorizations: [checked.authorization] };
    const signal = AbortSignal.timeout(PATIENCE_MS);
    for (;;) {
      const { payments } = await by.look(submission, signal);
      const [said] = payments;
      if (said !== undefined && said.kind !== "unknown") return said;
      await pause(POLL_MS, undefined, { signal });
    }
  }

  async close(): Promise<void> {
    for (const each of this.#open) await each.close();
    await this.node.stop();
  }
}

/** The mechanism's checks have passed, so that it knows its endpoint. */
export async function openBench(): Promise<Bench> {
  const node = await startSolanaNode({ slotMs: SLOT_MS });
  node.setLamports(FEE_PAYER, SOL);
  node.loadLighthouseStandIn();
  const bench = new Bench(node);
  const findings = await bench.solana.probe(never);
  if (findings.length > 0) throw new Error(findings.map(({ message }) => message).join("\n"));
  return bench;
}
