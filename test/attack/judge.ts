/**
 * What is wrong with what came of one attack: the oracle's verdict on everything that reached the backend,
 * and the answers held against what the case says.
 */
import { CLOSED, expectedOf, methodsOf, type AttackCase } from "./attack-case.ts";
import { judgeReceipts, judgeTold } from "./audit.ts";
import { cutRequests, FRAMINGS, valuesOf, type ReadRequest } from "./framing.ts";
import { isNever, meaningsOf, valuesByReader } from "./name-readers.ts";
import type { Flaw } from "./flaw.ts";
import type { Oracle } from "./oracle.ts";
import { CUT_OFF, type Answer, type Dialogue } from "./dialogue.ts";
import { FORGED, SEEN_HEADER, type Arrived } from "./recording-backend.ts";
import { believesUs, isSecure, PUBLIC_URL, type Gateway } from "./shop.ts";

export interface Evidence {
  readonly dialogue: Dialogue;
  readonly arrived: readonly Arrived[];
  /** The next plain request went to the backend on a connection of this one. */
  readonly isReused?: boolean;
}

/** Every flaw of one attack. */
export function judge(
  each: AttackCase,
  { dialogue, arrived, isReused = false }: Evidence,
  oracle: Oracle,
  gateway: Gateway,
): readonly Flaw[] {
  const detail = "its connection to the backend is used again";
  const kept: readonly Flaw[] =
    each.retires === true && isReused ? [{ kind: "smuggle", detail }] : [];
  const told = each.abandons ? [] : judgeAnswers(each, dialogue, expectedOf(each, gateway));
  return [
    ...told,
    ...kept,
    ...(isSale(each)
      ? [...judgeTold(arrived), ...judgeReceipts(each.envelope, dialogue.answers)]
      : judgeArrived(arrived, oracle, gateway)),
    ...judgeCount(each, dialogue, arrived),
  ];
}

/** Whether the backend is asked because somebody has paid. */
function isSale({ sells, at }: AttackCase): boolean {
  return Boolean(sells) && at === undefined;
}

/** The answers alone. */
export function judgeAnswers(
  each: AttackCase,
  dialogue: Dialogue,
  expected: readonly (readonly number[])[],
): Flaw[] {
  const { answers, fault, isClosed, received } = dialogue;
  const mustClose = each.closes === true || expected.length === 0;
  return [
    ...judgeFault(each, fault),
    ...judgeStatuses(dialogue, expected),
    ...(mustClose && !isClosed
      ? [{ kind: "hang", detail: "the connection stays open" } as const]
      : []),
    ...answers.flatMap((answer, index) =>
      judgeAnswer(each, answer, { index, expected: expected[index] ?? [] }),
    ),
    ...judgeText(each, received),
  ];
}

/** An answer that its backend has not finished must not look finished. */
function judgeFault({ isCut }: AttackCase, fault: string | undefined): Flaw[] {
  if (isCut === true) {
    return fault === CUT_OFF
      ? []
      : [{ kind: "answer", detail: "nothing shows that it is cut off" }];
  }
  return fault === undefined ? [] : [{ kind: "answer", detail: fault }];
}

function judgeStatuses(
  { answers, isClosed }: Dialogue,
  expected: readonly (readonly number[])[],
): Flaw[] {
  const statuses = answers.map(({ status }) => status);
  const got = statuses.join(", ") || "none";
  const words = expected.map((each) => each.map((one) => (one === CLOSED ? "closed" : one)));
  const wanted = words.map((each) => each.join(" or ")).join(", ") || "none";
  const detail = `answers ${got}, not ${wanted}`;
  if (statuses.length < expected.length && !isClosed) return [{ kind: "hang", detail }];
  // An answer too many is somebody else's: whoever keeps the connection takes it for the next one.
  if (statuses.length > expected.length) return [{ kind: "smuggle", detail }];
  const isAsWanted = expected.every((each, index) => each.includes(statuses[index] ?? CLOSED));
  return isAsWanted ? [] : [{ kind: "answer", detail }];
}

function judgeText({ says, lacks, once }: AttackCase, received: string): Flaw[] {
  const missing = says.filter((text) => !received.includes(text));
  const extra = [...lacks, FORGED].filter((text) => received.includes(text));
  const repeated = once.filter((text) => received.split(text).length !== 2);
  return [
    ...missing.map((text) => `no answer says ${JSON.stringify(text)}`),
    ...extra.map((text) => `an answer says ${JSON.stringify(text)}`),
    ...repeated.map((text) => `not one answer says ${JSON.stringify(text)}, but none or several`),
  ].map((detail) => ({ kind: "answer", detail }));
}

/** What is true of any answer. */
function judgeAnswer(
  each: AttackCase,
  { status, lines, body }: Answer,
  { index, expected }: { readonly index: number; readonly expected: readonly number[] },
): Flaw[] {
  const isHead = methodsOf(each)[index] === "HEAD";
  const asked =
    status === 402 ? [...judgeQuestionV2(lines), ...(isHead ? [] : judgeQuestion(body))] : [];
  // What a hostile backend says is its own, and its silence is our 502.
  if (each.backend !== undefined) return asked;
  const flaws: Flaw[] = [];
  const valueOf = (name: string) => lines.find(([each]) => each === name)?.[1];
  if (status >= 500 && !expected.includes(status))
    flaws.push({ kind: "5xx", detail: `${status} ${body.slice(0, 200)}` });
  const isOurs = valueOf(SEEN_HEADER) === undefined && body !== "";
  // What has a tag is one of the gateway's documents, which say the same to everyone.
  const caching = status === 200 && valueOf("etag") !== undefined ? "no-cache" : "no-store";
  if (isOurs && valueOf("cache-control") !== caching) {
    flaws.push({ kind: "answer", detail: `${status} without Cache-Control: ${caching}` });
  }
  return [...flaws, ...asked];
}

/** The body of a 402. */
function judgeQuestion(body: string): Flaw[] {
  const { x402Version, error, accepts } = readJson(body);
  if (x402Version !== 1 || typeof error !== "string" || !Array.isArray(accepts)) {
    return [{ kind: "answer", detail: "402 without payment requirements" }];
  }
  return judgeResources(accepts.map((offer) => Object(offer).resource));
}

/** The same in version 2, in a header. */
function judgeQuestionV2(lines: Answer["lines"]): Flaw[] {
  const [told = "", ...others] = valuesOf(lines, "payment-required");
  const { x402Version, resource, accepts } = readJson(Buffer.from(told, "base64").toString());
  if (others.length > 0 || x402Version !== 2 || !Array.isArray(accepts) || accepts.length === 0) {
    return [{ kind: "answer", detail: "402 without payment requirements of version 2" }];
  }
  return judgeResources([Object(resource).url]);
}

function judgeResources(resources: readonly unknown[]): Flaw[] {
  const foreign = resources.filter((resource) => !String(resource).startsWith(`${PUBLIC_URL}/`));
  return foreign.map((resource) => ({
    kind: "answer",
    detail: `402 for the resource ${String(resource)}`,
  }));
}

function readJson(text: string): Record<string, unknown> {
  try {
    return Object(JSON.parse(text));
  } catch {
    return {};
  }
}

/** What reached the backend, whatever was answered. */
export function judgeArrived(
  arrived: readonly Arrived[],
  oracle: Oracle,
  gateway: Gateway,
): Flaw[] {
  return arrived.flatMap((each) => [
    ...judgeFraming(each),
    ...requestsOf(each).flatMap((request) => [
      ...judgeTarget(request, oracle),
      ...judgeLines(request, oracle, gateway),
    ]),
  ]);
}

/** The requests on a connection, one that was broken off included: the backend had its head. */
function requestsOf({ bytes }: Arrived): readonly ReadRequest[] {
  const { requests, partial } = cutRequests(bytes);
  return partial === undefined ? requests : [...requests, partial];
}

const nameOf = ({ method, target }: ReadRequest): string => `${method} ${target}`;

function judgeFraming({ bytes }: Arrived): Flaw[] {
  const { requests, partial, rest } = cutRequests(bytes);
  if (rest !== "" && partial === undefined) {
    return [{ kind: "smuggle", detail: `bytes that are no request: ${JSON.stringify(rest)}` }];
  }
  const strict = requests.map(nameOf).join(" | ");
  return FRAMINGS.flatMap((rules) => {
    const cut = cutRequests(bytes, rules);
    const loose = cut.requests.map(nameOf).join(" | ");
    // A body that was broken off ends its connection: nothing follows that could be read as a request.
    const isSame = partial === undefined ? loose === strict : loose.startsWith(strict);
    if (isSame) return [];
    const detail = `where ${rules.name}, the backend sees ${loose || "nothing"}, not ${strict}`;
    return [{ kind: "smuggle", detail } as const];
  });
}

function judgeTarget(
  { method, target }: Pick<ReadRequest, "method" | "target">,
  oracle: Oracle,
): Flaw[] {
  const verdict = oracle.judge(method, target);
  if (verdict.kind === "free") return [];
  const { reading, path, leadsTo } = verdict.named;
  const detail = `${method} ${target} is ${JSON.stringify(path)}, ${leadsTo}, to: ${reading}`;
  return [{ kind: verdict.kind === "bypass" ? "bypass" : "backend-dependent reading", detail }];
}

/** What the gateway writes itself, once each. */
const OURS = ["host", "x-forwarded-for", "x-forwarded-proto"];
const OURS_AT_MOST = new Set([...OURS, "x-forwarded-host"]);

function judgeLines(request: ReadRequest, oracle: Oracle, gateway: Gateway): Flaw[] {
  const { method, target, version, lines } = request;
  const flaws = lines.flatMap(([name, value]) => [
    ...judgeLine(name, value),
    ...[...meaningsOf(name).keys()].flatMap((meaning) =>
      judgeDirections(meaning, { method, target, value }, oracle),
    ),
  ]);
  if (version !== "HTTP/1.1") {
    flaws.push({ kind: "smuggle", detail: `the request line ends in ${JSON.stringify(version)}` });
  }
  return [...flaws, ...judgeOurs(lines, gateway), ...judgeConnection(lines)];
}

function judgeLine(name: string, value: string): Flaw[] {
  const detail = `${name}: ${value}`;
  if (!/^[!#$%&'*+.^`|~\w-]+$/.test(name)) return [{ kind: "smuggle", detail }];
  const forged = [...meaningsOf(name)].find(([meaning]) => isNever(meaning));
  if (forged !== undefined) {
    const [meaning, reader] = forged;
    const told = reader === "HTTP" ? detail : `${detail}, which is ${meaning} to ${reader}`;
    return [{ kind: "crossing", detail: told }];
  }
  return /^[A-Za-z0-9-]+$/.test(name) ? [] : [{ kind: "crossing", detail }];
}

/** What the gateway says of the client is there once, and is the truth. */
function judgeOurs(lines: ReadRequest["lines"], gateway: Gateway): Flaw[] {
  const flaws: Flaw[] = [];
  const flaw = (detail: string): void => void flaws.push({ kind: "crossing", detail });
  for (const name of OURS_AT_MOST) {
    for (const { reader, values } of valuesByReader(lines, name)) {
      const count = values.length;
      if (count <= 1 && (count === 1 || !OURS.includes(name))) continue;
      flaw(reader === "HTTP" ? `${count} times ${name}` : `${count} times ${name} to ${reader}`);
    }
  }
  // There we are a proxy that is trusted to say where a client comes from.
  if (believesUs(gateway)) return flaws;
  const [from] = valuesOf(lines, "x-forwarded-for");
  if (from !== undefined && from !== "127.0.0.1") flaw(`X-Forwarded-For: ${from}`);
  const [scheme] = valuesOf(lines, "x-forwarded-proto");
  const truth = isSecure(gateway) ? "https" : "http";
  if (scheme !== undefined && scheme !== truth) flaw(`X-Forwarded-Proto: ${scheme}`);
  return flaws;
}

/** Lines by which some backends route, and read the method. */
function judgeDirections(
  name: string,
  { method, target, value }: { method: string; target: string; value: string },
  oracle: Oracle,
): Flaw[] {
  if (name === "x-original-url" || name === "x-rewrite-url") {
    return judgeTarget({ method, target: value }, oracle);
  }
  return /^x-(?:http-)?method(?:-override)?$/.test(name)
    ? judgeTarget({ method: value.toUpperCase(), target }, oracle)
    : [];
}

/** The lines of this one connection: only what the gateway writes. */
function judgeConnection(lines: ReadRequest["lines"]): Flaw[] {
  const flaws: Flaw[] = [];
  const values = (name: string): string => valuesOf(lines, name).join(" | ");
  const upgrade = values("upgrade");
  const allowed = upgrade === "" ? ["keep-alive", "close"] : ["upgrade"];
  const flaw = (detail: string): void => void flaws.push({ kind: "crossing", detail });
  if (upgrade !== "" && upgrade !== "websocket") flaw(`Upgrade: ${upgrade}`);
  const connection = values("connection").toLowerCase();
  if (!allowed.includes(connection)) flaw(`Connection: ${connection}`);
  const coding = values("transfer-encoding");
  const length = values("content-length");
  if (coding !== "" && coding !== "chunked") flaw(`Transfer-Encoding: ${coding}`);
  if (!/^\d*$/.test(length)) flaw(`Content-Length: ${length}`);
  if (length !== "" && coding !== "") flaw("Content-Length and Transfer-Encoding");
  return flaws;
}

/** As many requests at the backend as it gave answers to this client, and those requests. */
function judgeCount(
  each: AttackCase,
  { answers }: Dialogue,
  arrived: readonly Arrived[],
): readonly Flaw[] {
  // A request that was broken off is one that the backend never had.
  const requests = arrived.flatMap(({ bytes }) => cutRequests(bytes).requests);
  const lines = requests.map((request) => `${nameOf(request)} HTTP/1.1`);
  const answered = answers.filter((answer) => valuesOf(answer.lines, SEEN_HEADER).length > 0);
  const strays = answered.filter(({ body }) => {
    const [, said] = /^goods \d+: (.*)\n$/.exec(body) ?? [];
    return body !== "" && !lines.includes(`${said} HTTP/1.1`);
  });
  return [
    ...judgeNumber(each, lines, answered.length),
    ...strays.map(({ body }): Flaw => {
      return { kind: "smuggle", detail: `the answer to another request: ${JSON.stringify(body)}` };
    }),
    ...judgeBytes(each, arrived),
  ];
}

function judgeNumber(
  { arrives, abandons, backend }: AttackCase,
  lines: readonly string[],
  answered: number,
): Flaw[] {
  const saw = `the backend saw ${lines.join(", ") || "nothing"}`;
  if (arrives !== undefined) {
    if (lines.join() === arrives.join()) return [];
    return [{ kind: "smuggle", detail: `${saw}, not ${arrives.join(", ") || "nothing"}` }];
  }
  if (abandons === true || backend !== undefined || answered === lines.length) return [];
  return [{ kind: "smuggle", detail: `${saw}, and the client got ${answered} of its answers` }];
}

function judgeBytes({ holds, withholds }: AttackCase, arrived: readonly Arrived[]): Flaw[] {
  const all = arrived.map(({ bytes, tunnelled }) => bytes + tunnelled).join("\n");
  const lower = arrived.map(({ bytes }) => bytes.toLowerCase()).join("\n");
  const missing = holds.filter((text) => !all.includes(text));
  const extra = withholds.filter((text) => lower.includes(text.toLowerCase()));
  return [
    ...missing.map((text): Flaw => {
      return { kind: "answer", detail: `the backend never received ${JSON.stringify(text)}` };
    }),
    ...extra.map((text): Flaw => {
      return { kind: "crossing", detail: `the backend received ${JSON.stringify(text)}` };
    }),
  ];
}
