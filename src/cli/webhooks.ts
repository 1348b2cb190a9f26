/** `coinslot webhooks FILE`: what receivers are still to be told, told again, and whether they can be told anything. */
import {
  openMessages,
  tryReceiver,
  type OutboxMessage,
  type MessageFilter,
} from "../app/webhooks.ts";
import { printable, type Config } from "../config/config.ts";
import type { EventType } from "../x402/event-type.ts";
import { messageOf } from "../x402/result.ts";
import { loadOrExplain } from "./load.ts";
import { toColumns, toJson } from "./payments/payment-text.ts";

export interface WebhooksWish {
  readonly replay?: boolean;
  readonly test?: boolean;
  readonly id?: string;
  /** Milliseconds since the epoch. */
  readonly since?: number;
  readonly event?: EventType;
  readonly receiver?: string;
  readonly failed?: boolean;
  readonly all?: boolean;
  readonly limit: number;
  readonly json?: boolean;
}

/** Resolves with the exit code. */
export async function webhooks(file: string, options: WebhooksWish): Promise<number> {
  const { receiver, json } = options;
  const config = await loadOrExplain(file, { json });
  if (config === undefined) return 1;
  try {
    if (options.test === true) return await test(chosenOf(config, receiver), options);
    const messages = await openMessages(config);
    try {
      const filter = filterOf(options);
      if (options.replay === true) tellReplayed(await messages.replay(filter), options);
      else tell(await messages.list(filter, options.limit), options);
      return 0;
    } finally {
      await messages.close();
    }
  } catch (cause) {
    process.stderr.write(`coinslot: ${messageOf(cause)}\n`);
    return 1;
  }
}

function chosenOf({ webhooks, file }: Config, name: string | undefined): Config["webhooks"] {
  const chosen = webhooks.filter((each) => name === undefined || each.name === name);
  if (chosen.length > 0) return chosen;
  const who = name === undefined ? "no receiver" : `no receiver ${printable(name)}`;
  throw new Error(`${file} has ${who} under webhooks`);
}

function filterOf(options: WebhooksWish): MessageFilter {
  const { id, receiver: recipient, event: type, since: sinceMs, failed, all, replay } = options;
  const open = all === true || replay === true ? undefined : (["WAITING", "FAILED"] as const);
  const states = failed === true ? (["FAILED"] as const) : open;
  return {
    ...(id !== undefined && { id }),
    ...(recipient !== undefined && { recipient }),
    ...(type !== undefined && { type }),
    ...(sinceMs !== undefined && { sinceMs }),
    ...(states !== undefined && { states }),
  };
}

async function test(
  receivers: Config["webhooks"],
  { json }: Pick<WebhooksWish, "json">,
): Promise<number> {
  const tried = await Promise.all(
    receivers.map(async (each) => {
      const answer = await tryReceiver(each);
      const error = answer.kind === "failed" ? answer.detail : null;
      return { receiver: each.name, url: each.url, delivered: error === null, error };
    }),
  );
  if (json === true) process.stdout.write(toJson({ tested: tried }));
  for (const { receiver, url, error } of json === true ? [] : tried) {
    const said = error === null ? "took it" : `did not take it: ${error}`;
    process.stdout.write(`${receiver} (${url}) ${said}\n`);
  }
  return tried.every(({ delivered }) => delivered) ? 0 : 1;
}

function tellReplayed(count: number, { json }: Pick<WebhooksWish, "json">): void {
  const said = `${count} ${count === 1 ? "message is" : "messages are"} sent again\n`;
  process.stdout.write(json === true ? toJson({ replayed: count }) : said);
}

const HEAD = ["STATE", "AT", "RECEIVER", "EVENT", "SUBJECT", "ATTEMPTS", "NEXT", "ID", "ERROR"];

function tell(messages: readonly OutboxMessage[], { json }: Pick<WebhooksWish, "json">): void {
  if (json === true) {
    process.stdout.write(toJson({ messages: messages.map(viewOf) }));
    return;
  }
  if (messages.length === 0) {
    process.stdout.write("nothing waits, and nothing was given up\n");
    return;
  }
  const lines = messages
    .map(viewOf)
    .map((each) => [
      each.state,
      each.at,
      each.receiver,
      each.event,
      each.subject,
      String(each.attempts),
      each.next ?? "",
      each.id,
      each.error ?? "",
    ]);
  const shown = lines.map((line) => line.map(printable));
  process.stdout.write(toColumns([HEAD, ...shown], false));
}

function viewOf(message: OutboxMessage) {
  const { id, recipient, type, subject, data, atMs, state, attempts, dueMs, error } = message;
  return {
    id,
    receiver: recipient,
    event: type,
    subject,
    at: new Date(atMs).toISOString(),
    state,
    attempts,
    next: state === "WAITING" ? new Date(dueMs).toISOString() : null,
    error,
    data: JSON.parse(data) as unknown,
  };
}
