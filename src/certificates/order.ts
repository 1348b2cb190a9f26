/**
 * One certificate, from the order to the chain: each step goes on with what the steps before have left in the ledger,
 * also where those were done by a process that is gone.
 */
import { createPrivateKey, X509Certificate } from "node:crypto";
import { createSecureContext } from "node:tls";
import type { Client } from "acme-client";
import type { KeptCertificates } from "../ledger/certificates.ts";
import type { Time } from "../time/time.ts";
import { AuthorityFault, quoted, type Authority } from "./authority.ts";
import { forget, keep, type OpenOrder } from "./kept.ts";
import type { ToldCertificate, ToldChallenge } from "./told.ts";

/** Pause between two questions whether the authority is ready, milliseconds. */
const ASK_EVERY_MS = 1_000;
/** Longest that it may take to see that a name is ours, and to make the certificate, milliseconds. */
const READY_WITHIN_MS = 90_000;
/**
 * Before the authority is told to look, every process on this ledger has to know what to answer: they read it every
 * second ({@link READ_EVERY_MS}), and tell their workers within another.
 */
export const READ_EVERY_MS = 1_000;
const SPREAD_MS = 2 * READ_EVERY_MS + 500;

export interface Ordering {
  readonly directory: string;
  readonly domain: string;
  /** The challenge to prove the name by. */
  readonly challenge: ToldChallenge["kind"];
  /** What an earlier attempt has left. */
  readonly open: OpenOrder | undefined;
}

export interface OrderGround {
  readonly authority: Authority;
  readonly store: KeptCertificates;
  readonly time: Time;
  readonly signal: AbortSignal;
  /** Hears of each step, as a phrase. */
  readonly onStep: (step: string) => void;
}

type Order = Awaited<ReturnType<Client["getOrder"]>>;

/** Rejects with {@link AuthorityFault}, or whatever the ledger throws. */
export async function orderCertificate(
  ordering: Ordering,
  ground: OrderGround,
): Promise<ToldCertificate> {
  const { domain } = ordering;
  const { client, crypto } = ground.authority;
  const { onStep } = ground;
  // A process that was killed may have left one: while there is any, each connection is asked what it offers.
  await forget(ground.store, "challenge", domain);
  const begun = await begin(ordering, ground);
  const { key } = begun;
  let { order } = begun;
  if (order.status === "pending") {
    await prove(order, ordering, ground);
    order = await untilNot(["pending"], () => client.getOrder(order), ground);
  }
  if (order.status === "ready") {
    onStep("asking for the certificate");
    const [, request] = await crypto.createCsr({ altNames: [domain] }, key);
    order = { ...(await client.finalizeOrder(order, request)), url: order.url };
  }
  order = await untilNot(["ready", "processing"], () => client.getOrder(order), ground);
  if (order.status !== "valid") return failed(`is ${order.status}${saidOf(order)}`, domain, ground);
  const cert = await client.getCertificate(order);
  requireOurs(cert, key, domain);
  return { domain, cert, key };
}

/** Whoever comes next begins with a new one. */
async function failed(
  said: string,
  domain: string,
  { store }: Pick<OrderGround, "store">,
): Promise<never> {
  await forget(store, "order", domain);
  throw new AuthorityFault(`the order ${said}`);
}

/**
 * The order that was left open, or a new one, with the key that the certificate is for. One that has failed since is a
 * failure that nobody has counted: a process that is restarted again and again would have one of them each time.
 */
async function begin(
  { directory, domain, open }: Ordering,
  ground: OrderGround,
): Promise<{ readonly order: Order; readonly key: string }> {
  const { store, time, onStep } = ground;
  const { client, crypto } = ground.authority;
  if (open?.directory === directory) {
    const order = await findOrder(client, open.url);
    const isInvalid = order?.status === "invalid";
    // Nobody has tried what has only become too old.
    const isOld = isInvalid && Date.parse(order.expires ?? "") <= time.now();
    if (isInvalid && !isOld) {
      return failed(`that was left open is invalid${saidOf(order)}`, domain, ground);
    }
    if (order !== undefined && !isOld) {
      onStep("going on with an order that was left open");
      return { order, key: open.key };
    }
  }
  onStep("ordering a certificate");
  const key = String(await crypto.createPrivateEcdsaKey("P-256"));
  const order = await client.createOrder({ identifiers: [{ type: "dns", value: domain }] });
  await keep(store, ["order", domain], { directory, url: order.url, key });
  return { order, key };
}

/** Undefined: the authority knows it no more. */
async function findOrder(client: Client, url: string): Promise<Order | undefined> {
  try {
    // The library reads nothing of it but where it is.
    return await client.getOrder({ url } as Order);
  } catch (cause) {
    if (cause instanceof AuthorityFault && cause.isOutage) throw cause;
    return undefined;
  }
}

/** Shows the authority that the name is ours. */
async function prove(
  order: Order,
  { domain, challenge: kind }: Ordering,
  ground: OrderGround,
): Promise<void> {
  const { authority, store, time, signal, onStep } = ground;
  const { client } = authority;
  // One name has one of them, however many there are.
  const asked = { ...order, authorizations: (order.authorizations ?? []).slice(0, 1) };
  const [authorization] = await client.getAuthorizations(asked);
  if (authorization === undefined) throw new AuthorityFault("the order has no authorization");
  if (authorization.status !== "pending") return;
  const offered = authorization.challenges.find(({ type }) => type === kind);
  if (offered === undefined) throw new AuthorityFault(`it does not offer ${kind}`);
  const told = await toldOf({ kind, domain, offered, authorization }, authority);
  await keep(store, ["challenge", domain], told);
  try {
    await time.sleep(SPREAD_MS, signal);
    signal.throwIfAborted();
    onStep(`the authority looks by ${kind}`);
    await client.completeChallenge(offered);
    const look = async () => {
      const [seen] = await client.getAuthorizations(asked);
      return seen ?? authorization;
    };
    const seen = await untilNot(["pending"], look, ground);
    if (seen.status === "valid") return;
    const refused = seen.challenges.find(({ error }) => error !== undefined);
    await forget(store, "order", domain);
    throw new AuthorityFault(`${kind} failed${saidOf(refused ?? {})}`);
  } finally {
    await forget(store, "challenge", domain);
  }
}

type Authorization = Awaited<ReturnType<Client["getAuthorizations"]>>[number];

async function toldOf(
  {
    kind,
    domain,
    offered,
    authorization,
  }: {
    readonly kind: ToldChallenge["kind"];
    readonly domain: string;
    readonly offered: Authorization["challenges"][number];
    readonly authorization: Authorization;
  },
  { client, crypto }: Authority,
): Promise<ToldChallenge> {
  const answer = await client.getChallengeKeyAuthorization(offered);
  if (kind === "http-01") return { kind, domain, token: offered.token, answer };
  const key = await crypto.createPrivateEcdsaKey("P-256");
  const [, cert] = await crypto.createAlpnCertificate(authorization, answer, key);
  return { kind, domain, cert: String(cert), key: String(key) };
}

/** Asks again and again until the status is another one. */
async function untilNot<Item extends { readonly status: string }>(
  waiting: readonly string[],
  look: () => Promise<Item>,
  { time, signal }: OrderGround,
): Promise<Item> {
  const untilMs = time.now() + READY_WITHIN_MS;
  for (;;) {
    const item = await look();
    if (!waiting.includes(item.status)) return item;
    if (time.now() >= untilMs) {
      throw new AuthorityFault(`it is still ${item.status}`, { isOutage: true });
    }
    await time.sleep(ASK_EVERY_MS, signal);
    signal.throwIfAborted();
  }
}

/** What the authority says of a fault, behind a colon; "" where it says nothing. */
function saidOf({ error }: { readonly error?: object }): string {
  const detail: unknown = error === undefined ? undefined : Reflect.get(error, "detail");
  return typeof detail === "string" ? `: ${quoted(detail)}` : "";
}

/** What is for another key or name would be served to nobody's use, and what TLS does not take would end who tries to. */
function requireOurs(cert: string, key: string, domain: string): void {
  let fault = "what it gave is no certificate";
  try {
    const leaf = new X509Certificate(cert);
    fault = "the certificate that it gave is for another key or name";
    if (leaf.checkPrivateKey(createPrivateKey(key)) && leaf.checkHost(domain) !== undefined) {
      fault = "what stands behind the certificate that it gave cannot be served";
      createSecureContext({ cert, key });
      return;
    }
  } catch {
    // Said below.
  }
  throw new AuthorityFault(fault);
}
