/** Others are told what has happened: what is stored for them is sent, and what is no payment is noticed here. */
import { Tokens } from "../admin/payment-view.ts";
import type { Config } from "../config/config.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { Messages, OutboxEvent } from "../ledger/outbox.ts";
import { openSqliteMessages } from "../ledger/sqlite/sqlite-outbox.ts";
import type { WalletBalance } from "../mechanism/mechanism.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import { systemTime, type Time } from "../time/time.ts";
import { Receiver, type Answered } from "../webhooks/receiver.ts";
import { Webhooks } from "../webhooks/webhooks.ts";
import { formatAmount, parseUint256 } from "../x402/amount.ts";
import type { KnownNetworks } from "./known-networks.ts";

export type { OutboxMessage, MessageFilter } from "../ledger/outbox.ts";

/** Pause between two looks at which networks are open, milliseconds. */
const LOOK_MS = 1_000;
/** An account that pays for fewer settlements is low, and is so until it pays for twice as many. */
const LOW_SETTLEMENTS = 200n;

interface Ground {
  readonly ledger: Pick<Ledger, "outbox">;
  readonly telemetry: Telemetry;
  readonly time: Time;
}

export class Teller {
  readonly #ground: Ground;
  readonly #webhooks: Webhooks;
  readonly #stopping = new AbortController();
  readonly #networks: Pick<KnownNetworks, "used" | "closedReason">;
  /** By subject, as told last. */
  readonly #troubles = new Map<string, boolean>();
  #config: Pick<Config, "webhooks">;
  #tokens: Tokens;
  #looking: Promise<void> | undefined;

  constructor(
    config: Config,
    networks: Pick<KnownNetworks, "used" | "closedReason">,
    ground: Ground,
  ) {
    this.#config = config;
    this.#tokens = new Tokens(config);
    this.#networks = networks;
    this.#ground = ground;
    const present = (data: string): string => withAmount(data, this.#tokens);
    this.#webhooks = new Webhooks({ ...ground, outbox: ground.ledger.outbox, present });
  }

  start(): void {
    const { webhooks } = this.#config;
    if (webhooks.length > 0) this.#looking ??= this.#look();
    void this.#webhooks.serve(webhooks);
  }

  /** By another configuration from here on. */
  async know(config: Config): Promise<void> {
    this.#config = config;
    this.#tokens = new Tokens(config);
    const { webhooks } = config;
    this.#ground.ledger.outbox.address(webhooks);
    if (webhooks.length > 0) this.#looking ??= this.#look();
    await this.#webhooks.serve(webhooks);
  }

  /** What an account of ours has was read. */
  wallet(network: string, { address, balanceAtomic, settlementAtomic }: WalletBalance): void {
    if (this.#config.webhooks.length === 0 || settlementAtomic === 0n) return;
    const subject = `wallet ${network} ${address}`;
    const settlementsLeft = balanceAtomic / settlementAtomic;
    const wasLow = this.#troubles.get(subject) === true;
    const isLow = settlementsLeft < (wasLow ? 2n * LOW_SETTLEMENTS : LOW_SETTLEMENTS);
    const data = { network, address, settlementsLeft: Number(settlementsLeft) };
    const event = isLow ? ({ type: "wallet.low", subject, data } as const) : undefined;
    void this.#note(subject, isLow, event);
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#looking;
    await this.#webhooks.stop();
  }

  async #look(): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      const { used } = this.#networks;
      for (const network of this.#config.webhooks.length > 0 ? used : []) {
        const reason = this.#networks.closedReason(network);
        const type = reason === undefined ? "network.opened" : "network.closed";
        const subject = `network ${network}`;
        const data = { network, ...(reason !== undefined && { reason }) };
        await this.#note(subject, reason !== undefined, { type, subject, data });
      }
      // Nothing is sold there any more: that is no news.
      const subjects = new Set(used.map((network) => `network ${network}`));
      for (const [subject, isThere] of this.#troubles) {
        const isLeft = subject.startsWith("network ") && !subjects.has(subject);
        if (isThere && isLeft) await this.#note(subject, false);
      }
      await this.#ground.time.sleep(LOOK_MS, signal);
    }
  }

  /** Only what is otherwise than it was here before: another process that shares the ledger may see it otherwise. */
  async #note(subject: string, isThere: boolean, event?: OutboxEvent): Promise<void> {
    if (this.#troubles.get(subject) === isThere) return;
    const { ledger, telemetry } = this.#ground;
    try {
      await ledger.outbox.trouble(subject, isThere, event);
      this.#troubles.set(subject, isThere);
    } catch (cause) {
      const said = "others cannot be told of it yet; trying again";
      telemetry.logger.warn({ err: cause, subject }, said);
    }
  }
}

/** How much it is in whole tokens, where that is known. */
function withAmount(text: string, tokens: Tokens): string {
  const data: unknown = JSON.parse(text);
  const { network, asset, amountAtomic } = Object(data);
  if (typeof network !== "string" || typeof asset !== "string") return text;
  const token = tokens.find(network, asset);
  const atomic = parseUint256(String(amountAtomic));
  if (token === undefined || atomic === undefined) return text;
  const { symbol, decimals } = token;
  const amount = formatAmount(atomic, decimals);
  return JSON.stringify({ ...Object(data), amount, symbol, decimals });
}

/** Messages as an operator opens them: beside a running gateway or without one. Throws `LedgerUnavailable`. */
export async function openMessages({
  store,
}: Pick<Config, "store">): Promise<Messages & { close(): Promise<void> }> {
  if (store.kind === "sqlite") return openSqliteMessages({ path: store.path, time: systemTime });
  // Its driver is loaded by those who need it.
  const { openPostgresMessages } = await import("../ledger/postgres/postgres.ts");
  return openPostgresMessages({ url: store.url.reveal(), time: systemTime });
}

/** Posts a message of no event to one receiver, now. */
export async function tryReceiver(settings: Config["webhooks"][number]): Promise<Answered> {
  const receiver = new Receiver(settings, systemTime);
  const data = JSON.stringify({ receiver: settings.name });
  const id = `msg_${crypto.randomUUID()}`;
  try {
    return await receiver.post({ id, type: "coinslot.test", atMs: systemTime.now(), data });
  } finally {
    await receiver.close();
  }
}
