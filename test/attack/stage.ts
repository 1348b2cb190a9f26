/**
 * The real gateway process under attack, before a recording backend and a local chain. One case at a time:
 * what arrives at the backend meanwhile is its doing.
 */
import { setTimeout as pause } from "node:timers/promises";
import { PAYMENT_HEADERS } from "../../src/x402/header.ts";
import {
  X402_VERSION,
  X402_VERSION_2,
  type PaymentRequirements,
  type X402Version,
} from "../../src/x402/x402.ts";
import type { Chain } from "../support/chain.ts";
import type { Site, Served } from "../support/serve.ts";
import {
  findUndecided,
  FORGED_LINES,
  judgeSale,
  judgeSecrets,
  ODDLY_FORGED_LINES,
} from "./audit.ts";
import { readSteps, scriptOf, stepsOf } from "./attack-bytes.ts";
import { methodsOf, expectedOf, type AttackCase } from "./attack-case.ts";
import { openHouse, type House, type HouseOptions } from "./house.ts";
import type { Flaw } from "./flaw.ts";
import { judge, judgeAnswers, judgeArrived, type Evidence } from "./judge.ts";
import { judgeBehind } from "./judge-behind.ts";
import { Oracle } from "./oracle.ts";
import { Payers, type Payer } from "./payers.ts";
import { tellStep, type Answer, type Dialogue } from "./dialogue.ts";
import { RawClient } from "./raw-client.ts";
import { isProbeBeside, PROBE, withoutProbe, type RecordingBackend } from "./recording-backend.ts";
import { AUTHORITY, isSecure, prefixOf, shopBehind, unmatchedOf, type Gateway } from "./shop.ts";

/** Longest that a plain request may take, milliseconds. */
const PLAIN_MS = 5_000;
/** Longest wait for the answer to what may be no request, milliseconds. */
const PROVOKED_MS = 40;
/** How long the gateway may take to write the last lines of its log, milliseconds. */
const LOG_MS = 5_000;

/** A case's flaws, with what was sent and what came of it. */
export interface Finding extends Flaw {
  readonly name: string;
  readonly topic: string;
  readonly gateway: Gateway;
  readonly sent: string;
  readonly received: string;
  readonly arrived: readonly string[];
}

/** What a case that is over tells the audit at the end. */
interface Past {
  readonly each: AttackCase;
  readonly sent: string;
  readonly evidence: Evidence;
}

export class Stage implements AsyncDisposable {
  readonly gateway: Gateway;
  readonly #chain: Chain;
  readonly #oracle: Oracle;
  readonly #site: Site;
  readonly #port: number;
  readonly #proxy: House["proxy"];
  readonly #backend: RecordingBackend;
  readonly #yaml: string;
  readonly #signer: House["signer"];
  readonly #past: Past[] = [];
  readonly #house: House;
  readonly #payers: Payers;
  readonly #logs: string[] = [];
  #served: Served;
  #isGone = false;
  #probes = 0;
  #requirements: PaymentRequirements | undefined;

  private constructor(chain: Chain, gateway: Gateway, house: House) {
    this.gateway = gateway;
    this.#house = house;
    this.#chain = chain;
    this.#payers = new Payers(chain, () => this.#quote());
    this.#oracle = new Oracle(unmatchedOf(gateway), shopBehind(gateway));
    this.#site = house.site;
    this.#port = house.port;
    this.#proxy = house.proxy;
    this.#backend = house.backend;
    this.#signer = house.signer;
    this.#yaml = house.yaml;
    this.#served = this.#watch(house.served);
  }

  static async start(chain: Chain, gateway: Gateway, options?: HouseOptions): Promise<Stage> {
    return new Stage(chain, gateway, await openHouse(chain, gateway, options));
  }

  #watch(served: Served): Served {
    this.#isGone = false;
    void this.#mourn(served);
    return served;
  }

  async #mourn(served: Served): Promise<void> {
    await served.ended;
    if (this.#served === served) this.#isGone = true;
  }

  /** Plays one case, and then asks for something plain. */
  async play(each: AttackCase): Promise<readonly Finding[]> {
    const payers = new Map<string, Payer>();
    const wallet = this.#payers.wallet(payers, each.envelope);
    const steps = await stepsOf(each, wallet);
    const heard = each.asks === undefined ? undefined : await this.#questions();
    const crowd = await this.#gather(each);
    const before = this.#backend.now();
    const client = this.#client(each);
    const signal = AbortSignal.timeout(each.within);
    const expected = expectedOf(each, this.gateway).length;
    this.#backend.play(await scriptOf(each, wallet));
    await client.perform(steps, signal);
    await client.until(({ answers }) => isEnough(each, answers, expected), signal);
    // What an impatient client has asked for still goes on.
    if (each.abandons === true) {
      client.close();
      // Idle before it has read what came last, and idle behind it: then the backend has heard of it, too.
      await this.#untilIdle();
      await this.#untilIdle();
    }
    const probe = await this.#probe();
    this.#backend.play(undefined);
    await this.#backend.played();
    // By now everything has come that was on its way, answers that nobody asked for included.
    const dialogue = client.dialogue();
    for (const one of [client, ...crowd]) one.close();
    // Places and connections are free again before the next case.
    if (this.gateway === "crowded") await this.#untilIdle();
    const all = this.#backend.since(before);
    const arrived = withoutProbe(all, probe.arriving);
    const evidence = { dialogue, arrived, isReused: isProbeBeside(all, probe.arriving) };
    const sent = steps.map(tellStep).join("");
    this.#past.push({ each, sent, evidence });
    const flaws = [
      ...this.#judge(each, evidence),
      ...probe.flaws,
      ...(await this.#judgePayers(each, payers)),
      ...(heard === undefined ? [] : judgeAsked(each.asks, heard, await this.#questions())),
    ];
    if (probe.isDead) await this.#restart();
    return flaws.map((flaw) => this.#find(flaw, { each, sent, evidence }));
  }

  /** Sends bytes of which nobody knows what they ask for. */
  async provoke(bytes: string): Promise<readonly Finding[]> {
    const before = this.#backend.now();
    const tls = isSecure(this.gateway) ? { tls: "h2" as const } : {};
    const client = new RawClient({ port: this.#port, ...tls });
    const signal = AbortSignal.timeout(PROVOKED_MS);
    await client.perform([{ kind: "send", bytes }], signal);
    const dialogue = await client.until(({ answers }) => answers.length > 0, signal);
    client.close();
    await this.#untilIdle();
    const evidence = { dialogue, arrived: this.#backend.since(before) };
    const past = { each: { ...EMPTY_CASE, topic: "provocation" }, sent: bytes, evidence };
    this.#past.push(past);
    const failed = dialogue.answers.filter(({ status }) => status >= 500);
    const flaws: Flaw[] = [
      ...judgeArrived(evidence.arrived, this.#oracle, this.gateway),
      ...failed.map(({ status, body }): Flaw => ({ kind: "5xx", detail: `${status} ${body}` })),
    ];
    if (this.#isGone) {
      flaws.push({ kind: "crash", detail: this.#served.output().stderr.slice(-2000) });
      await this.#restart();
    }
    return flaws.map((flaw) => this.#find(flaw, past));
  }

  /** Plays a case among others: what arrives is judged for all of them by {@link audit}. */
  async playBeside(each: AttackCase): Promise<readonly Finding[]> {
    const steps = await stepsOf(each, this.#payers.wallet(new Map(), each.envelope));
    const client = this.#client(each);
    const signal = AbortSignal.timeout(each.within);
    const expected = expectedOf(each, this.gateway).length;
    const performed = client.perform(steps, signal);
    await client.until(({ answers }) => isEnough(each, answers, expected), signal);
    const dialogue = client.dialogue();
    client.close();
    await performed;
    const evidence = { dialogue, arrived: [] };
    const sent = steps.map(tellStep).join("");
    const flaws = judgeAnswers(each, dialogue, expectedOf(each, this.gateway));
    return flaws.map((flaw) => this.#find(flaw, { each, sent, evidence }));
  }

  #judge(each: AttackCase, evidence: Evidence): readonly Flaw[] {
    return this.#proxy === undefined
      ? judge(each, evidence, this.#oracle, this.gateway)
      : judgeBehind(evidence, this.#oracle, this.gateway);
  }

  #client(each?: AttackCase): RawClient {
    const methods = each === undefined ? [] : methodsOf(each);
    if (each?.at === "admin") {
      return new RawClient({ port: Number(new URL(this.#served.adminUrl).port), methods });
    }
    if (each?.at === "facilitator") {
      return new RawClient({ port: this.#house.facilitatorPort, methods });
    }
    const port = this.#port;
    if (!isSecure(this.gateway)) return new RawClient({ port, methods });
    return new RawClient({ port, methods, tls: each?.h2 === undefined ? "http/1.1" : "h2" });
  }

  #find(flaw: Flaw, { each, sent, evidence }: Past): Finding {
    const { name, topic } = each;
    return {
      ...flaw,
      name,
      topic,
      gateway: this.gateway,
      sent,
      received: evidence.dialogue.received,
      arrived: evidence.arrived.map(({ bytes, tunnelled }) => bytes + tunnelled),
    };
  }

  async #quote(): Promise<PaymentRequirements> {
    if (this.#requirements !== undefined) return this.#requirements;
    const { answers } = await this.#ask("GET /paid");
    const { accepts } = Object(JSON.parse(answers[0]?.body ?? ""));
    this.#requirements = accepts[0];
    return accepts[0];
  }

  /** One plain request on a connection of its own. */
  async #ask(what: string, lines: readonly string[] = []): Promise<Dialogue> {
    const client = this.#client();
    const head = [`${what} HTTP/1.1`, `Host: ${AUTHORITY}`, ...lines, "Connection: close"];
    const signal = AbortSignal.timeout(PLAIN_MS);
    await client.perform([{ kind: "send", bytes: `${head.join("\r\n")}\r\n\r\n` }], signal);
    const dialogue = await client.until(({ answers }) => answers.length > 0, signal);
    client.close();
    return dialogue;
  }

  async #probe(): Promise<{ arriving: string; flaws: readonly Flaw[]; isDead: boolean }> {
    this.#probes += 1;
    const target = `${PROBE}-${this.#probes}`;
    const arriving = prefixOf(this.gateway) + target;
    const { answers, received } = await this.#ask(`GET ${target}`);
    const [answer] = answers;
    if (this.#isGone || answer === undefined) {
      const { stderr } = this.#served.output();
      const how = this.#isGone ? `the process ended: ${stderr.slice(-2000)}` : "no answer";
      const detail = `the next plain request: ${how}`;
      return { arriving, flaws: [{ kind: "crash", detail }], isDead: true };
    }
    if (answer.body.endsWith(`: GET ${arriving}\n`)) return { arriving, flaws: [], isDead: false };
    const detail = `the next plain request was answered with ${JSON.stringify(received)}`;
    return { arriving, flaws: [{ kind: "smuggle", detail }], isDead: false };
  }

  /** No request is being worked on: one goes on after its client has left, and may still pay. */
  async #untilIdle(): Promise<void> {
    const deadline = AbortSignal.timeout(PLAIN_MS);
    while (!deadline.aborted && !this.#isGone) {
      // Nobody answers once an attack has ended the process; the probe will say so.
      const response = await fetch(`${this.#served.adminUrl}/metrics`).catch(() => undefined);
      const told = (await response?.text()) ?? "";
      if (/^coinslot_http_requests_in_flight 0$/m.test(told)) return;
      await pause(10);
    }
  }

  async #judgePayers(
    { sells }: AttackCase,
    payers: ReadonlyMap<string, Payer>,
  ): Promise<readonly Flaw[]> {
    if (payers.size > 0) await this.#untilIdle();
    const price = sells === true ? (await this.#quote()).maxAmountRequired : (sells ?? 0);
    return this.#payers.judge(payers, BigInt(price));
  }

  /** What the chain has been asked up to now. */
  async #questions(): Promise<Questions> {
    const told = await (await fetch(`${this.#served.adminUrl}/metrics`)).text();
    const calls = told.matchAll(
      /^coinslot_rpc_calls_total\{[^}]*method="eth_(call|getCode|chainId)"[^}]*\} (\d+)$/gm,
    );
    const heard = { payments: 0, looks: 0 };
    for (const [, method, count] of calls) {
      heard[method === "chainId" ? "looks" : "payments"] += Number(count);
    }
    return heard;
  }

  /** The other connections of a case, each as far as it gets. */
  async #gather({ crowd, within, envelope }: AttackCase): Promise<readonly RawClient[]> {
    if (crowd === undefined) return [];
    const steps = await readSteps(crowd.sends, this.#payers.wallet(new Map(), envelope));
    const signal = AbortSignal.timeout(within);
    const clients = Array.from({ length: crowd.connections }, () => this.#client());
    await Promise.all(clients.map((client) => client.perform(steps, signal)));
    return clients;
  }

  async #restart(): Promise<void> {
    await this.#served.end("SIGKILL");
    this.#logs.push(this.#served.output().stdout);
    const served = await this.#site.serve(this.#yaml, { SIGNER: this.#signer.privateKey });
    this.#served = this.#watch(served);
    await served.untilReady();
  }

  /**
   * What can only be told at the end: the gateway still sells; no attack was settled; each request at the
   * backend is one that the gateway decided to be free; no payment stands in the log.
   */
  async audit(): Promise<readonly Finding[]> {
    const flaws: Flaw[] = [];
    const transactions = await this.#chain.rpc("eth_getTransactionCount", [
      this.#signer.address,
      "latest",
    ]);
    const sales = this.#past.filter(({ each: { sells } }) => Boolean(sells)).length;
    if (Number(transactions) !== sales) {
      const detail = `${Number(transactions)} payments were settled, and ${sales} sold`;
      flaws.push({ kind: "payment", detail });
    }
    const beside = this.#past.length === 0 ? this.#backend.since([]) : [];
    flaws.push(...judgeArrived(beside, this.#oracle, this.gateway));
    const sell = async (version: X402Version): Promise<Evidence> => {
      const sale = await this.#sell(version);
      flaws.push(...judgeSale(version, sale.dialogue.answers[0], sale.arrived));
      return sale;
    };
    await sell(X402_VERSION);
    const evidence = await sell(X402_VERSION_2);
    const log = await this.#log();
    const metrics = await (await fetch(`${this.#served.adminUrl}/metrics`)).text();
    flaws.push(...judgeSecrets(log + metrics, this.#payers.headers, this.#signer.privateKey));
    const audit = { ...EMPTY_CASE, topic: "audit" };
    // A backend that breaks off is asked once more, where that is safe.
    const asked = this.#past.filter(({ each }) => each.backend === undefined && !each.sells);
    const undecided = findUndecided(
      log,
      asked.map(({ evidence: { arrived } }) => arrived),
      prefixOf(this.gateway),
    );
    return [
      ...flaws.map((flaw) => this.#find(flaw, { each: audit, sent: "", evidence })),
      ...undecided.flatMap(({ index, flaw }) => {
        const past = asked[index];
        return past === undefined ? [] : this.#find(flaw, past);
      }),
    ];
  }

  /** A sale in earnest, with what a client might try to make of it. */
  async #sell(version: X402Version): Promise<Evidence> {
    const before = this.#backend.now();
    const header = await this.#payers.wallet(new Map(), version).pay("payment");
    const odd = this.#proxy === undefined ? ODDLY_FORGED_LINES : [];
    const payment = `${PAYMENT_HEADERS[version]}: ${header}`;
    const dialogue = await this.#ask("GET /paid", [payment, ...FORGED_LINES, ...odd]);
    return { dialogue, arrived: this.#backend.since(before) };
  }

  /** The whole log; waits for the lines of the last request. */
  async #log(): Promise<string> {
    const deadline = AbortSignal.timeout(LOG_MS);
    const mark = `${PROBE}-${this.#probes}"`;
    while (!this.#served.output().stdout.includes(mark) && !deadline.aborted) await pause(10);
    return [...this.#logs, this.#served.output().stdout].join("\n");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#proxy?.[Symbol.asyncDispose]();
    await this.#site[Symbol.asyncDispose]();
    await this.#backend[Symbol.asyncDispose]();
  }
}

const EMPTY_CASE: Omit<AttackCase, "topic"> = {
  name: "at the end of the battery",
  cites: "H12",
  method: "GET",
  target: "",
  version: "",
  host: null,
  headers: [],
  eol: "",
  body: "",
  after: [],
  within: 0,
  says: [],
  lacks: [],
  once: [],
  holds: [],
  withholds: [],
  envelope: X402_VERSION,
};

interface Questions {
  /** As a payment asks them, and a look of our own at the network. */
  readonly payments: number;
  /** Of looks alone. */
  readonly looks: number;
}

/** Nothing is judged where a look of our own came between, as it does each half minute. */
function judgeAsked(
  expected: number | undefined,
  before: Questions,
  after: Questions,
): readonly Flaw[] {
  const asked = after.payments - before.payments;
  if (asked === (expected ?? 0) || after.looks > before.looks) return [];
  return [{ kind: "payment", detail: `the chain was asked ${asked} times, not ${expected}` }];
}

function isEnough(each: AttackCase, answers: readonly Answer[], expected: number): boolean {
  if (each.abandons) return true;
  return expected > 0 && answers.length >= expected && !each.closes;
}
