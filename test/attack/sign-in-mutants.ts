/** About who says that he has paid before (H19). */
import type { Mutant } from "./mutant.ts";

const SIGN_IN = "src/x402/sign-in.ts";
const SERVICE = "src/payments/sale/payment-service.ts";
const JUDGEMENT = "src/ledger/payment-judgement.ts";
const SIGNERS = "src/mechanism/text-signers.ts";
const KEYS = "src/mechanism/evm/signed-text.ts";

const TEXT_TEST = "test/unit/x402/sign-in.test.ts";
const SALE_TEST = "test/unit/payments/sale/sign-in.test.ts";
const CONTRACT = "test/unit/ledger/memory-ledger.test.ts";

export const SIGN_IN_MUTANTS: readonly Mutant[] = [
  caughtBy(TEXT_TEST, "takes a sign-in for another site", {
    file: SIGN_IN,
    find: "if (domain !== this.#domain) {",
    put: 'if (domain === "") {',
  }),
  caughtBy(TEXT_TEST, "takes a sign-in for another URL", {
    file: SIGN_IN,
    find: "if (!uris.includes(uri))",
    put: 'if (uri === "")',
  }),
  caughtBy(TEXT_TEST, "takes a nonce that it has not made", {
    file: SIGN_IN,
    find: "return timingSafeEqual(Buffer.from(nonce.slice(NONCE_HALF)), Buffer.from(proof));",
    put: "return timingSafeEqual(Buffer.from(proof), Buffer.from(proof));",
  }),
  caughtBy(TEXT_TEST, "lets anybody give a nonce another time", {
    file: SIGN_IN,
    find: "`coinslot sign-in ${random} ${issuedAt}`",
    put: "`coinslot sign-in ${random} ${issuedAt.length}`",
  }),
  caughtBy(TEXT_TEST, "takes the proof of one nonce for that of another in its series", {
    file: SIGN_IN,
    find: "return proofs.slice(number * NONCE_HALF, (number + 1) * NONCE_HALF);",
    put: "return proofs.slice(0, NONCE_HALF + number * 0);",
  }),
  caughtBy(TEXT_TEST, "takes a nonce in several spellings", {
    file: SIGN_IN,
    find: "if (!/^[\\da-f]{32}$/.test(nonce)) return false;",
    put: "nonce = nonce.trim().toLowerCase().slice(0, 32).padEnd(32);",
  }),
  caughtBy(TEXT_TEST, "takes a sign-in that is too old", {
    file: SIGN_IN,
    find: "if (nowMs >= untilMs) {",
    put: "if (nowMs < 0) {",
  }),
  caughtBy(TEXT_TEST, "takes a sign-in before its time", {
    file: SIGN_IN,
    find: "if (issuedMs > nowMs)",
    put: "if (nowMs < 0)",
  }),
  caughtBy(TEXT_TEST, "takes a sign-in on a chain where nothing is sold", {
    file: SIGN_IN,
    find: "if (network === undefined || !networks.includes(network.name)) {",
    put: "if (network === undefined) {",
  }),
  caughtBy(TEXT_TEST, "has a text signed without what is used once", {
    file: SIGN_IN,
    find: "    `Nonce: ${nonce}`,\n",
    put: "",
  }),
  caughtBy(TEXT_TEST, "takes any key's signature for the account's", {
    file: KEYS,
    find: "return signer === address.toLowerCase();",
    put: "return signer !== null && address !== message;",
  }),
  caughtBy(TEXT_TEST, "takes any text's signature for this one's on Solana", {
    file: SIGNERS,
    find: 'const message = Buffer.from(text.message, "utf8");',
    put: 'const message = Buffer.from(text.message.trim(), "utf8");',
  }),
  caughtBy(SALE_TEST, "takes one sign-in twice", {
    file: SERVICE,
    find: 'return verdict === "again" ? err(USED_SIGN_IN) : ok(bought);',
    put: "return ok(bought);",
  }),
  caughtBy(SALE_TEST, "gives more sign-ins to one payer than are remembered", {
    file: SERVICE,
    find: 'if (verdict === "crowded") return err(',
    put: 'if (verdict === "first" && address === "") return err(',
  }),
  caughtBy(SALE_TEST, "takes a sign-in that nobody has signed", {
    file: SERVICE,
    find: "if (!isSigned) return err(UNSIGNED);",
    put: "",
  }),
  caughtBy(SALE_TEST, "has code run for whoever names an account", {
    file: SERVICE,
    find: "if (!hasKey && bought.length > 0) {",
    put: "if (!hasKey) {",
  }),
  caughtBy(SALE_TEST, "takes what code says on one chain for all of them", {
    file: SERVICE,
    find: ": paymentPayload.network === network;",
    put: ": findNetwork(paymentPayload.network)?.kind === kind;",
  }),
  caughtBy(SALE_TEST, "gives what somebody else has bought", {
    file: SERVICE,
    find: "return isTheirs && payerOf(paymentPayload) === payer && read.ok",
    put: "return isTheirs && read.ok",
  }),
  caughtBy(SALE_TEST, "charges what was dropped while it was looked up", {
    file: "src/payments/sale/paywall.ts",
    find: 'const takeoff = { proof: "signed-in", signal, isNew: true, unclaimed: NOTHING_LEFT } as const;',
    put: 'const takeoff = { proof: "signed-in", signal, isNew: true } as const;',
  }),
  caughtBy(CONTRACT, "takes what was bought from whoever has claimed it", {
    file: JUDGEMENT,
    find: 'return by.proof === "signed-in" ? claimant : by.claimant;',
    put: "return by.claimant ?? claimant;",
  }),
  caughtBy(CONTRACT, "gives what was bought for ever", {
    file: JUDGEMENT,
    find: "return (\n    isHadAgain(row, nowMs) &&",
    put: "return (\n    nowMs > 0 &&",
  }),
  caughtBy(CONTRACT, "gives what was bought for another request", {
    file: JUDGEMENT,
    find: 'if (row.state === "CLAIMED" || row.state === "FAILED" || !isFor(row, sale)) return false;',
    put: 'if (row.state === "CLAIMED" || row.state === "FAILED") return false;',
  }),
  caughtBy("test/unit/gateway/message/field-lines.test.ts", "shows a sign-in to the backend", {
    file: "src/gateway/message/field-lines.ts",
    find: "  signInName,\n",
    put: "",
  }),
];

function caughtBy(unit: string, name: string, edit: Pick<Mutant, "file" | "find" | "put">): Mutant {
  return { name, cites: "H19", unit, ...edit };
}
