/** What is sold, handed over and had again, with one guard against who wants more than he has paid for taken away. */
import { caughtBy, type Mutant } from "./mutant.ts";

const GOODS = "test/integration/gateway/goods.test.ts";
const LOST = "test/integration/gateway/goods-lost.test.ts";
const RESETS = "test/unit/gateway/message/reset.test.ts";
const LEAVING = "test/unit/payments/sale/leaving.test.ts";
const OWING = "test/unit/payments/sale/owing.test.ts";
const TILL = "test/unit/workers/till.test.ts";
const SERVICE = "src/payments/sale/payment-service.ts";
const REDIRECTED = "test/integration/redirected-ways.test.ts";
const INPUT = "test/integration/gateway/declared-input.test.ts";
const CONTRACT = "test/unit/ledger/memory-ledger.test.ts";
const SHOPS = "src/payments/sale/cheaper-shop.ts";
const REDIRECTS = "src/gateway/redirects.ts";
const DELIVERY = "src/gateway/delivery.ts";
const DELIVERIES = "src/ledger/deliveries.ts";
const JUDGEMENT = "src/ledger/payment-judgement.ts";
const MACHINE = "src/ledger/machine.ts";
const PAYWALL = "src/payments/sale/paywall.ts";

export const GOODS_MUTANTS: readonly Mutant[] = [
  caughtBy(RESETS, "takes what is lost half a minute behind its answer for read", {
    file: "src/gateway/message/reset.ts",
    find: "const RESET_WITHIN_MS = 30_000;",
    put: "const RESET_WITHIN_MS = 5_000;",
  }),
  caughtBy(LEAVING, "does not wait until it is stored what is owed", {
    file: SERVICE,
    find: "if (owing !== undefined) await owing;",
    put: "",
  }),
  caughtBy(TILL, "tells no other worker that something has broken off", {
    file: "src/workers/remote-payment-service.ts",
    find: 'this.#channel.call("owe", [payer], options).catch(() => undefined);',
    put: "void options;",
  }),
  caughtBy(OWING, "asks no worker whether it has seen that something broke off", {
    file: "src/payments/sale/owing.ts",
    find: "if (notice === undefined || !this.#begun.has(nameOf(buying()))) return this.#stored(buying);",
    put: "if (notice !== undefined || this.#begun.size >= 0) return this.#stored(buying);",
  }),
  caughtBy(TILL, "remembers no sale that a worker has begun", {
    file: "src/payments/sale/payment-service.ts",
    find: 'if (transition.kind === "claim" && "terms" in transition) this.#begin(transition.terms);',
    put: "",
  }),
  caughtBy(OWING, "remembers every sale that was ever begun", {
    file: "src/payments/sale/owing.ts",
    find: "this.#begun.delete(oldest);",
    put: "",
  }),
  caughtBy(TILL, "takes what a dead worker was delivering for delivered until it is free", {
    file: "src/workers/worker-session.ts",
    find: "this.#options.payments.owe(null, freed);",
    put: "",
  }),
  caughtBy(OWING, "has everybody wait for what a stranger breaks off", {
    file: "src/payments/sale/owing.ts",
    find: "this.#under.set(payer, all);",
    put: "this.#under.set(null, all);",
  }),
  caughtBy(LEAVING, "forgets what broke off, since it had been closed in good order before", {
    file: "src/payments/sale/goods.ts",
    find: "if (this.#forgetting.get(key) !== mark) return;",
    put: "",
  }),
  caughtBy(CONTRACT, "takes what is being fetched again for had, whoever dies meanwhile", {
    file: DELIVERIES,
    find: "const held = { holder: moment.life, isLeft: true };",
    put: "const held = { holder: moment.life, isLeft: false };",
  }),
  caughtBy(TILL, "takes what has been fetched again for owed for ever", {
    file: "src/payments/sale/goods.ts",
    find: `        const recorded = this.record(key, { kind: "collected" });
        this.#watch({ key, request, onReset, isDownload: true }, recorded);`,
    put: `        const recorded = Promise.resolve();
        this.#watch({ key, request, onReset, isDownload: true }, recorded);`,
  }),
  caughtBy(LOST, "tells who was cut to pay for the rest of a kept answer", {
    file: "src/payments/sale/goods.ts",
    find: "return whole !== null && (await give(whole)) ? replayed : USED;",
    put: "return USED;",
  }),
  caughtBy(LOST, "gives a kept part to who asks for another", {
    file: "src/payments/sale/goods.ts",
    find: "response.status === WHOLE ? await",
    put: "response.status > 0 ? await",
  }),
  caughtBy(LOST, "gives a kept answer to who asks for a part in other units", {
    file: "src/gateway/message/request-body.ts",
    find: 'if (!/^\\s*bytes=/i.test(headers.range ?? "")) return null;',
    put: "",
  }),
  caughtBy(LOST, "gives a kept answer to who only compares his own", {
    file: "src/gateway/message/request-body.ts",
    find: "return isOfBytes ? HASH_OF_NOTHING : null;",
    put: "return HASH_OF_NOTHING;",
  }),
  caughtBy(LOST, "sells a redirect to where nobody gets", {
    file: "src/gateway/redirects.ts",
    find: 'if (read.kind !== "ok") return NOWHERE;',
    put: 'if (read.kind !== "ok") return null;',
  }),
  caughtBy(LOST, "takes a redirect to where nobody gets for its buyer's fault", {
    file: "src/gateway/delivery.ts",
    find: "(status >= SERVER_ERROR || this.#isLost)",
    put: "status >= SERVER_ERROR",
  }),
  caughtBy(LOST, "gives parts of what its backend gives whole", {
    file: "src/gateway/upstream/kept-answer.ts",
    find: "kept.status !== 200 || !isGiven) return kept;",
    put: "kept.status !== 200) return kept;",
  }),
  caughtBy(LOST, "gives the rest of another answer than the one that was cut", {
    file: "src/gateway/upstream/kept-answer.ts",
    find: "!known.includes(String(same))",
    put: "false",
  }),
  caughtBy(OWING, "waits for a ledger that does not store for as long as that takes", {
    file: "src/payments/sale/owing.ts",
    find: 'Promise.race([stored, once(this.#time.timeout(OWING_MS), "abort")])',
    put: 'Promise.race([stored, once(this.#time.timeout(OWING_MS * 2), "abort")])',
  }),
  caughtBy(GOODS, "leads on to what costs more", {
    file: SHOPS,
    find: "isNoMore(asked, paid) && sameAddress(asked.payTo, paid.payTo)",
    put: "sameAddress(asked.payTo, paid.payTo)",
  }),
  caughtBy(GOODS, "leads on to what is paid to somebody else", {
    file: SHOPS,
    find: " && sameAddress(asked.payTo, paid.payTo)",
    put: "",
  }),
  caughtBy(GOODS, "takes what was led on at another shop for paid enough", {
    file: SHOPS,
    find: "return url.startsWith(`${resource.slice(0, -here.length)}/`);",
    put: "return true;",
  }),
  caughtBy(GOODS, "takes any host for its own in a redirect", {
    file: REDIRECTS,
    find: "if (url === null || !isOurs(url, ours, request, snapshot)) return null;",
    put: "if (url === null) return null;",
  }),
  caughtBy(GOODS, "takes the host that a client names for its own in a redirect", {
    file: REDIRECTS,
    find: " && hosts?.names.has(host) === true",
    put: "",
  }),
  caughtBy(
    GOODS,
    "leads whoever shows the payment on",
    {
      file: MACHINE,
      find: "if (!mayCollect(row, terms)) return",
      put: "if (row.ledTo === null && !mayCollect(row, terms)) return",
    },
    {
      file: DELIVERIES,
      find: "return isSame && mayCollect(row, sale);",
      put: "return isSame && (row.ledTo !== null || mayCollect(row, sale));",
    },
  ),
  caughtBy(GOODS, "tells a redirect before it is stored where it leads", {
    file: "src/gateway/upstream/refusal-first.ts",
    find: "void this.#sale.refused().finally(() => {",
    put: "void this.#sale.refused();\n    void Promise.resolve().finally(() => {",
  }),
  caughtBy(GOODS, "counts no attempt that led on", {
    file: DELIVERIES,
    find: "sent && row.repeats < uncounted",
    put: "sent && uncounted > 0",
  }),
  caughtBy(GOODS, "takes the payment of one route's HEAD for another route's GET", {
    file: "src/gateway/decision.ts",
    find: `get.value.kind === "priced" && get.value.label === label`,
    put: `get.value.kind === "priced"`,
  }),
  caughtBy(GOODS, "follows redirects without end", {
    file: DELIVERY,
    find: "this.#followed.length < MAX_FOLLOWED",
    put: "this.#followed.length < 10 * MAX_FOLLOWED",
  }),
  caughtBy(GOODS, "asks its backend for what another one has", {
    file: DELIVERY,
    find: "!isHarmless(method) || !isSameBackend",
    put: "!isHarmless(method)",
  }),
  caughtBy(GOODS, "fetches again as often as anybody likes", {
    file: DELIVERIES,
    find: " || row.repeats >= asked.times",
    put: "",
  }),
  caughtBy(
    GOODS,
    "fetches again for whoever shows the payment",
    {
      file: DELIVERIES,
      find: `row?.state === "DELIVERED" && mayCollect(row, asked)`,
      put: `row?.state === "DELIVERED"`,
    },
    { file: MACHINE, find: "if (isAgain && mayCollect(row, terms))", put: "if (isAgain)" },
  ),
  caughtBy(CONTRACT, "fetches again for ever", {
    file: JUDGEMENT,
    find: "return isServed && repeatUntilMs !== null && nowMs < repeatUntilMs;",
    put: "return isServed && repeatUntilMs !== null;",
  }),
  caughtBy(GOODS, "fetches again whatever another body asks for", {
    file: DELIVERY,
    find: "return replaying !== null && !hasRequestBody(request);",
    put: "return replaying !== null;",
  }),
  caughtBy(GOODS, "fetches again what a handshake was answered", {
    file: DELIVERY,
    find: "return replaying !== null && !hasRequestBody(request);",
    put: "return !hasRequestBody(request);",
  }),
  caughtBy(GOODS, "makes what is small anew for whoever asks for a part of it", {
    file: DELIVERY,
    find: "status === PARTIAL && !isPartOfLittle(lines)",
    put: "status === PARTIAL",
  }),
  caughtBy(GOODS, "gives a part of an answer to who asks for another", {
    file: "src/gateway/message/request-body.ts",
    find: `const SELECTING = ["range", `,
    put: `const SELECTING = [`,
  }),
  caughtBy(INPUT, "charges for what lacks what is declared", {
    file: PAYWALL,
    find: "const judged = isNew ? presented.unfit?.() : null;",
    put: "const judged = isNew ? null : presented.unfit?.();",
  }),
  caughtBy(INPUT, "spends a paid attempt on what lacks what is declared", {
    file: PAYWALL,
    find: "const unfit = isPaid ? await flight.presented.unfit?.() : null;",
    put: "const unfit = isPaid ? null : await flight.presented.unfit?.();",
  }),
  caughtBy(INPUT, "takes JSON for none that begins with the mark of its byte order", {
    file: "src/gateway/declared-input.ts",
    find: "new TextDecoder().decode(body)",
    put: 'body.toString("utf8")',
  }),
  caughtBy(INPUT, "judges what is in another charset", {
    file: "src/gateway/declared-input.ts",
    find: "if (OTHER_CHARSET.test(type)) return [];",
    put: "",
  }),
  caughtBy(INPUT, "waits for a pattern without end", {
    file: "src/gateway/declared-input.ts",
    find: "this.#slow.has(name) ? withinLook(look) : look()",
    put: "look()",
  }),
  caughtBy(
    "test/integration/gateway/unpaid-limit.test.ts",
    "counts no request that lacks something",
    {
      file: "src/gateway/exits.ts",
      find: "challenge.refused(client);",
      put: "",
    },
  ),
  caughtBy(CONTRACT, "tells anybody what a payment has bought", {
    file: MACHINE,
    find: "row.binding !== null && mayCollect(row, terms);",
    put: "row.binding !== null;",
  }),
  caughtBy(REDIRECTED, "forgets behind a redirect what its payer's group pays", {
    file: REDIRECTS,
    find: "return acceptable({ ...presented, ...there, plan, offers, resource });",
    put: "return offers.requirements(resource, acceptable(decision).length > 0 ? decision.version : 2);",
  }),
  caughtBy(REDIRECTED, "asks what is owed by the price of now behind a redirect", {
    file: REDIRECTS,
    find: "return label === decision.plan.label || isPaidWith(",
    put: "return label === null || isPaidWith(",
  }),
  caughtBy(
    "test/unit/app/sweeper.test.ts",
    "sweeps away by what somebody has what he has paid for",
    {
      file: "src/app/sweeper.ts",
      find: "time.now() - Math.max(keepMs, longestGrantMs(config()));",
      put: "time.now() - keepMs;",
    },
  ),
];
