/** About who says that he has paid before, or is a member (H19). */
import type { Mutant } from "./mutant.ts";

const SIGN_IN = "src/x402/sign-in.ts";
const SERVICE = "src/payments/sale/recognition.ts";
const SESSION = "src/x402/session.ts";
const MEMBERSHIP = "src/gateway/membership.ts";
const JUDGEMENT = "src/ledger/payment-judgement.ts";
const SIGNERS = "src/mechanism/text-signers.ts";
const KEYS = "src/mechanism/evm/signed-text.ts";

const TEXT_TEST = "test/unit/x402/sign-in.test.ts";
const SALE_TEST = "test/unit/payments/sale/sign-in.test.ts";
const SESSION_TEST = "test/unit/x402/session.test.ts";
const MEMBER_TEST = "test/unit/payments/sale/membership.test.ts";
const GROUP_TEST = "test/unit/gateway/membership.test.ts";
const SQLITE_TEST = "test/unit/ledger/sqlite/sqlite-contract.test.ts";
const BESIDE_TEST = "test/integration/sidecar/buyers.test.ts";
const CONTRACT = "test/unit/ledger/memory-ledger.test.ts";

export const SIGN_IN_MUTANTS: readonly Mutant[] = [
  caughtBy(BESIDE_TEST, "has sessions that another proxy passes on", {
    file: "src/app/sign-in-terms.ts",
    find: "sessions: sidecar === null ? new Sessions({ ...secret, forMs, notBeforeMs }) : null,",
    put: "sessions: new Sessions({ ...secret, forMs, notBeforeMs }),",
  }),
  caughtBy("test/integration/sidecar/protocol.test.ts", "takes a sign-in where nothing passes", {
    file: "src/gateway/sidecar/sidecar.ts",
    find: " || request.headers[SIGN_IN_NAME] !== undefined",
    put: "",
  }),
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
    find: 'return verdict === "again" ? err(USED_SIGN_IN) : had;',
    put: "return had;",
  }),
  caughtBy(SALE_TEST, "gives more sign-ins to one payer than are remembered", {
    file: SERVICE,
    find: 'if (verdict === "crowded") return err(',
    put: 'if (verdict === "first" && payer === "") return err(',
  }),
  caughtBy(SALE_TEST, "takes a sign-in that nobody has signed", {
    file: SERVICE,
    find: "return isSigned ? ok(had) : err(UNSIGNED);",
    put: "return ok(had);",
  }),
  caughtBy(SALE_TEST, "has code run for whoever names an account", {
    file: SERVICE,
    find: "if (!had.isKnown) return err(UNSIGNED);",
    put: "",
  }),
  caughtBy(SALE_TEST, "takes what code says on one chain for all of them", {
    file: SESSION,
    find: "return hasKey ? networkOf(own).kind",
    put: "return hasKey || network !== own ? networkOf(own).kind",
  }),
  caughtBy(SALE_TEST, "gives what somebody else has bought", {
    file: SERVICE,
    find: "isAccountOn(paymentPayload.network, account) && payerOf(paymentPayload) === address;",
    put: "isAccountOn(paymentPayload.network, account);",
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
  caughtBy(SESSION_TEST, "takes any session for one that it has given", {
    file: SESSION,
    find: "if (more.length > 0 || !isSame(mac, this.#macOf(told))) {",
    put: 'if (more.length > 0 || told === "" || mac === "") {',
  }),
  caughtBy(SESSION_TEST, "takes a session of another site", {
    file: SESSION,
    find: "`coinslot session ${publicUrl}`",
    put: "`coinslot session`",
  }),
  caughtBy(SESSION_TEST, "takes a session that is over", {
    file: SESSION,
    find: "if (nowMs >= endMs ||",
    put: "if (nowMs >= endMs + 60_000 ||",
  }),
  caughtBy(SESSION_TEST, "takes sessions for longer than they last by now", {
    file: SESSION,
    find: "const endMs = Math.min(untilMs, issuedMs + this.#options.forMs);",
    put: "const endMs = untilMs;",
  }),
  caughtBy(SESSION_TEST, "goes on with the sessions that were ended", {
    file: SESSION,
    find: " || issuedMs < this.#options.notBeforeMs) {",
    put: ") {",
  }),
  caughtBy(SESSION_TEST, "lets pages read a session", {
    file: SESSION,
    find: "; HttpOnly; SameSite=Lax",
    put: "; SameSite=Lax",
  }),
  caughtBy(SESSION_TEST, "shows a session to the backend", {
    file: SESSION,
    find: 'value.replace(IN_COOKIES, "").replace(/^; ?/, "")',
    put: "value",
  }),
  caughtBy(MEMBER_TEST, "serves a member again and again for one sign-in", {
    file: SERVICE,
    find: 'if (membership === "free" || granted.length > 0 || bought.length > 0)',
    put: "if (granted.length > 0 || bought.length > 0)",
  }),
  caughtBy(MEMBER_TEST, "serves who has paid once again and again for one sign-in", {
    file: SERVICE,
    find: 'if (membership === "free" || granted.length > 0 || bought.length > 0)',
    put: 'if (membership === "free" || bought.length > 0)',
  }),
  caughtBy(MEMBER_TEST, "takes what code may be for what a key is", {
    file: SERVICE,
    find: "const membership = hasKey ? memberships.key : memberships.code;",
    put: "const membership = memberships.key;",
  }),
  caughtBy(MEMBER_TEST, "grants what was paid for for ever", {
    file: SERVICE,
    find: ".filter(({ untilMs }) => nowMs < untilMs);",
    put: ".filter(({ untilMs }) => nowMs > 0 && untilMs > 0);",
  }),
  caughtBy(SQLITE_TEST, "grants by what may still be paid back by itself", {
    file: "src/ledger/sqlite/sqlite-sign-ins.ts",
    find: "`AND state = 'DELIVERED' AND route IN",
    put: "`AND route IN",
  }),
  caughtBy(MEMBER_TEST, "grants by what was bought elsewhere", {
    file: SERVICE,
    find: "const own = grants.find((each) => each.route === route);",
    put: "const own = grants.find((each) => each.route === route || key !== null);",
    also: {
      file: SERVICE,
      find: "await redemptions.signIns.purchases(account.address, routes);",
      put: "await redemptions.signIns.purchases(account.address, routes.length > 9 ? routes : null);",
    },
  }),
  caughtBy(MEMBER_TEST, "grants by what the same address has bought on another chain by code", {
    file: SERVICE,
    find: "      .filter(({ network }) => isAccountOn(network, account))\n      .flatMap(",
    put: "      .flatMap(",
  }),
  caughtBy(MEMBER_TEST, "gives sessions to whoever makes an account", {
    file: SERVICE,
    find: "if (!isKnown) return err(NO_SESSION);",
    put: "",
  }),
  caughtBy(MEMBER_TEST, "gives no session to whoever has but a balance", {
    file: SERVICE,
    find: "some(({ free, leased }) => free + leased > 0n)",
    put: "some(({ free, leased }) => free + leased < 0n)",
  }),
  caughtBy(
    MEMBER_TEST,
    "takes what the code at an address has for what the key of the same one has",
    {
      file: "src/ledger/pots.ts",
      find: "return [creditsPot(network, address, hasKey ? undefined : own), unit] as const;",
      put: "return [creditsPot(network, address), unit] as const;",
    },
  ),
  caughtBy(GROUP_TEST, "takes a smart wallet for the one of the same address on another chain", {
    file: MEMBERSHIP,
    find: "hasKey ? list.has(network, address) : list.hasOn(network, address),",
    put: "hasKey || list.has(network, address),",
  }),
  caughtBy(GROUP_TEST, "sells to anybody at the price of a group", {
    file: MEMBERSHIP,
    find: "priced.find(({ list }) => list.has(network, address))?.offers;",
    put: "priced.find(({ list }) => list.has(network, address) || address !== network)?.offers;",
  }),
  caughtBy(GROUP_TEST, "sells to a member at the price of any of his groups", {
    file: MEMBERSHIP,
    find: "return [...new Set([first, byCode])].filter(",
    put: "return [...new Set([first, byCode, priced.at(-1)?.offers])].filter(",
  }),
  caughtBy("test/integration/members.test.ts", "looks up who shows a session without end", {
    file: "src/gateway/challenge.ts",
    find: 'isKnown ? Math.max(refused, unpaid.waitSeconds(address, "known")) : refused;',
    put: "isKnown ? Math.max(refused, 0) : refused;",
  }),
  caughtBy("test/integration/members.test.ts", "serves a member who is denied", {
    file: "src/gateway/decision.ts",
    find: "signIn?.areScreened === false ?",
    put: "signIn !== null ?",
  }),
  caughtBy("test/unit/gateway/message/field-lines.test.ts", "shows a sign-in to the backend", {
    file: "src/gateway/message/field-lines.ts",
    find: "  signInName,\n",
    put: "",
  }),
];

function caughtBy(
  unit: string,
  name: string,
  edit: Omit<Mutant, "name" | "cites" | "unit">,
): Mutant {
  return { name, cites: "H19", unit, ...edit };
}
