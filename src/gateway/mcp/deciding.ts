/**
 * What becomes of a request to a server of tools, once it is known what it says: a call of a tool is decided as a request to
 * a route of its own would be, and everything else passes. The payment is in the call, or in the header lines.
 */
import { noteAsked, keepBody, type InboundRequest } from "../message/inbound.ts";
import { hasRequestBody } from "../message/request-body.ts";
import { valueOf, valuesOf } from "../message/field-values.ts";
import { metaPayment, PAYMENT_META } from "../../x402/mcp.ts";
import { broughtBy, type Brought } from "../brought.ts";
import { decideSale, type Decision, type FreeDecision, type Snapshot } from "../decision.ts";
import { readPricedBody, type PricedBody } from "../priced-body.ts";
import type { Visitor } from "../visitor.ts";
import { Conversation, hearingOf, type Hearing } from "./conversation.ts";
import { MAX_MESSAGE_BYTES, readMessage, type ReadMessage, type RpcCall } from "./message.ts";
import { mirrorFault } from "./mirrored-lines.ts";
import { ToolList } from "./tool-list.ts";
import type { ToolTable } from "./tool-table.ts";
import { UnderWay } from "./under-way.ts";
import { wireId } from "./wire-id.ts";

/** A free route whose requests are looked into. */
export type ToolsDecision = FreeDecision & {
  readonly plan: FreeDecision["plan"] & { readonly tools: ToolTable };
};

/** Whether it is one. */
export function isOfTools(decision: Decision): decision is ToolsDecision {
  return decision.kind === "free" && decision.plan.tools !== undefined;
}

const UNCLEAR = "the name is close to that of another tool, or none that all readers see alike";

/** Methods of streamable HTTP that carry no message. */
const WITHOUT_MESSAGE: ReadonlySet<string> = new Set(["GET", "HEAD", "DELETE", "OPTIONS"]);

/** Priced calls of each backend, and how each request among them ends. */
const underWay = new WeakMap<ToolsDecision["plan"]["engine"], UnderWay>();
const endings = new WeakMap<Visitor, () => void>();

/** Serves it, and its call is under way until then. */
export async function whileAsked<Ending>(
  visitor: Visitor,
  serve: () => Promise<Ending>,
): Promise<Ending> {
  try {
    return await serve();
  } finally {
    endings.get(visitor)?.();
  }
}

/** A request, and by what it is judged. */
interface Ground {
  readonly decision: ToolsDecision;
  readonly snapshot: Snapshot;
  readonly request: InboundRequest;
}

/** In one place, since its body is waited for. */
export function decideByMessage(
  visitor: Visitor,
  decision: ToolsDecision,
  snapshot: Snapshot,
): Decision | Promise<Decision> {
  const { request } = visitor;
  const ground = { decision, snapshot, request };
  const { method = "" } = request;
  // A switched connection carries whatever both ends like.
  if (visitor.replaying === null || request.headers.upgrade !== undefined) {
    return rejected(400, "no connection is switched to another protocol here");
  }
  if (WITHOUT_MESSAGE.has(method)) {
    if (hasRequestBody(request)) return rejected(400, `a ${method} has no body here`);
    const fault = mirrorFault(request.rawHeaders, { method: undefined });
    if (fault !== null) return rejected(400, fault);
    visitor.speech = conversationOf({ id: null, call: null }, "status", ground);
    return decision;
  }
  if (method !== "POST") return { kind: "method-not-allowed", allow: "GET, HEAD, POST, DELETE" };
  const read = readPricedBody(visitor, MAX_MESSAGE_BYTES);
  const decided = (body: PricedBody): Decision => byBody(visitor, body, ground);
  return read instanceof Promise ? read.then(decided) : decided(read);
}

function rejected(status: 400 | 411 | 413 | 415, detail: string): Decision {
  return { kind: "rejected", status, detail };
}

function byBody(visitor: Visitor, read: PricedBody, ground: Ground): Decision {
  const { decision, request } = ground;
  switch (read.kind) {
    case "gone":
      return { kind: "left", meter: decision.plan.meter };
    case "absent":
      return rejected(400, "a message is missing");
    case "refused":
      return rejected(read.status, read.detail);
    case "whole": {
      const message = readMessage(read.body, request.rawHeaders);
      keepBody(request, message.body);
      return byMessage(visitor, message, ground);
    }
  }
}

function byMessage(visitor: Visitor, read: ReadMessage, ground: Ground): Decision {
  const { message } = read;
  const { decision, snapshot, request } = ground;
  if (message.kind === "refused") {
    const { id, code, detail } = message;
    return { kind: "misread", id, code, detail, meter: decision.plan.meter };
  }
  if (message.kind === "cancel") {
    const session = sessionOf(request);
    const wire = underWayAt(decision).find({ session, id: message.cancelled });
    if (wire !== undefined) keepBody(request, read.bodyUnder(wire));
  }
  const id = message.kind === "list" ? message.id : null;
  if (message.kind !== "call") {
    visitor.speech = conversationOf({ id, call: null }, "status", ground);
    return decision;
  }
  const inLines = broughtBy(snapshot, request);
  const { tools } = decision.plan;
  const isPaidByLine = inLines.kind !== "challenge";
  const hearing = tools.unpaid === "status" ? "status" : hearingOf(request, isPaidByLine);
  const called = { id: message.id, call: message };
  const conversation = conversationOf(called, hearing, ground);
  visitor.speech = conversation;
  const decided = byCall(message, { conversation, inLines }, ground);
  if (decided.kind === "free" || decided.kind === "denied") return decided;
  // Whoever may pay for it, or has it for nothing while others pay: no other message of its session has its answer.
  const wire = wireId(message.id);
  keepBody(request, read.bodyUnder(wire));
  conversation.sentUnder(wire);
  const named = { session: sessionOf(request), id: message.id };
  endings.set(visitor, underWayAt(decision).begin(named, wire));
  return decided;
}

function underWayAt({ plan: { engine } }: ToolsDecision): UnderWay {
  const known = underWay.get(engine) ?? new UnderWay();
  underWay.set(engine, known);
  return known;
}

function sessionOf({ rawHeaders }: InboundRequest): string {
  return valuesOf(rawHeaders, "mcp-session-id").join();
}

function byCall(
  call: RpcCall,
  { conversation, inLines }: { readonly conversation: Conversation; readonly inLines: Brought },
  { decision, snapshot, request }: Ground,
): Decision {
  const { target, path } = decision;
  const { name } = call;
  noteAsked(request, conversation.bought?.target ?? call.asked);
  const found = decision.plan.tools.find(name);
  const { meter } = decision.plan;
  const unknown = (detail: string): Decision => ({ kind: "denied", status: 404, meter, detail });
  if (found === "unclear") return unknown(UNCLEAR);
  if (found === undefined || found.isDenied) return unknown("there is no such tool");
  const match = snapshot.router.match("POST", found.path);
  if (match.kind !== "route" || match.value.kind === "deny")
    return unknown("there is no such tool");
  const plan = match.value;
  if (plan.kind === "free") return { kind: "free", plan, target, path };
  const resource = `${snapshot.publicUrl}${path}#${encodeURIComponent(name)}`;
  const brought = broughtInCall(call, inLines);
  const called = { conversation, resource, brought };
  return decideSale(snapshot, request, plan, { target, path: found.path, called });
}

/** With two payments nobody could say which one is meant. */
function broughtInCall({ payment }: RpcCall, inLines: Brought): Brought {
  if (payment === undefined) return inLines;
  if (inLines.kind !== "challenge") {
    const detail = `a payment is in a header line, and another one in ${PAYMENT_META}`;
    return { kind: "malformed", refusal: { code: "invalid_payload", detail } };
  }
  const read = metaPayment({ [PAYMENT_META]: payment });
  if (read === undefined) return inLines;
  if (!read.ok) return { kind: "malformed", refusal: read.error };
  return { kind: "presented", ...read.value };
}

function conversationOf(
  message: ConstructorParameters<typeof Conversation>[0],
  hearing: Hearing,
  { decision, snapshot, request }: Ground,
): Conversation {
  const { plan, path } = decision;
  const list = new ToolList(plan.tools);
  const session = sessionOf(request);
  const revision = valueOf(request.rawHeaders, "mcp-protocol-version");
  const place = snapshot.site + path;
  return new Conversation(message, hearing, list, { place, session, revision });
}
