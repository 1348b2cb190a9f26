/**
 * The operator's page as it stands, and what changes in it: as long as somebody follows it, the list is made again
 * a few times a second, and those entries are sent that read differently.
 */
import type { LookedFor, PaymentFollower, PaymentsPages } from "./payments.ts";
import type { Logger } from "../telemetry/logger.ts";
import type { Time } from "../time/time.ts";
import { paymentPage, requestItem, requestsPage, REQUESTS_POLICY } from "../web/requests-page.ts";
import type { RequestView } from "../web/requests-view.ts";
import type { PaymentTimeline } from "./timeline.ts";
import { EVERYTHING, filterOf, mayName, type TimelineFilter } from "./timeline-filter.ts";

/** How often the list is made again while somebody follows it, milliseconds. */
const AGAIN_MS = 400;
/** Rounds without a change after which a sign of life is sent. */
const QUIET_ROUNDS = 40;
/** Largest event, characters; an update that is larger goes in several. */
const MAX_EVENT = 64 * 1024;

interface Item {
  readonly html: string;
  /** When it last came to read differently. */
  readonly version: number;
}

export interface PagesGround {
  readonly timeline: PaymentTimeline;
  /** What is not sold for now, a sentence for each. Default: nothing is stopped. */
  readonly stopped?: () => readonly string[];
  readonly time: Time;
  readonly logger: Logger;
}

/** One list as it stands; whoever has seen a version of it is told what has changed since. */
class LiveList {
  readonly #ground: PagesGround;
  readonly #filter: TimelineFilter;
  #items: ReadonlyMap<string, Item> = new Map();
  #views: readonly RequestView[] = [];
  /** Begins with the time, so that a version of a process before this one is older than all of this one's. */
  #version: number;
  #refreshing: Promise<void> | undefined;

  constructor(ground: PagesGround, filter: TimelineFilter) {
    this.#ground = ground;
    this.#filter = filter;
    this.#version = ground.time.now();
  }

  get version(): number {
    return this.#version;
  }

  get views(): readonly RequestView[] {
    return this.#views;
  }

  refresh(): Promise<void> {
    return (this.#refreshing ??= this.#make().finally(() => (this.#refreshing = undefined)));
  }

  async #make(): Promise<void> {
    const views = await this.#ground.timeline.list(this.#filter);
    const next = this.#version + 1;
    let isChanged = views.length !== this.#items.size;
    const items = new Map<string, Item>();
    for (const view of views) {
      const html = requestItem(view).toString();
      const known = this.#items.get(view.id);
      if (known?.html !== html) isChanged = true;
      items.set(view.id, known?.html === html ? known : { html, version: next });
    }
    this.#views = views;
    if (!isChanged) return;
    this.#version = next;
    this.#items = items;
  }

  /** The order goes last: with it an update is complete. */
  changes(after: number): readonly string[] {
    const events: string[] = [];
    let items: object[] = [];
    let size = 0;
    for (const [id, { html, version }] of this.#items) {
      if (version <= after) continue;
      if (size > 0 && size + html.length > MAX_EVENT) {
        events.push(JSON.stringify({ items }));
        [items, size] = [[], 0];
      }
      items.push({ id, html });
      size += html.length;
    }
    events.push(JSON.stringify({ items, order: [...this.#items.keys()] }));
    return events;
  }
}

/** Who follows which list, and what he has seen of it. */
interface Following {
  readonly list: LiveList;
  readonly after: number;
}

export class TimelinePages implements PaymentsPages {
  readonly policy = REQUESTS_POLICY;
  readonly #ground: PagesGround;
  readonly #all: LiveList;
  readonly #followers = new Map<PaymentFollower, Following>();
  readonly #ending = new AbortController();
  #isFollowing = false;

  constructor(ground: PagesGround) {
    this.#ground = ground;
    this.#all = new LiveList(ground, EVERYTHING);
  }

  async list(asked: LookedFor): Promise<string> {
    const { find } = asked;
    if (mayName(find)) {
      const { found, page } = await this.show(find);
      if (found) return page;
    }
    const list = this.#listOf(asked);
    await list.refresh();
    // A list of its own is not there any more when it is followed.
    const version = list === this.#all ? list.version : 0;
    return requestsPage(list.views, version, asked, this.#ground.stopped?.());
  }

  async show(name: string): Promise<{ readonly found: boolean; readonly page: string }> {
    const payment = await this.#ground.timeline.show(name);
    return { found: payment !== undefined, page: paymentPage(payment) };
  }

  follow(after: number, asked: LookedFor, follower: PaymentFollower): () => void {
    if (this.#ending.signal.aborted) follower.end();
    else {
      const list = this.#listOf(asked);
      // A clock may have been set back.
      this.#followers.set(follower, { list, after: after > list.version ? 0 : after });
      if (!this.#isFollowing) void this.#followOn();
    }
    return () => void this.#followers.delete(follower);
  }

  /** A part of all is made for each who looks at it: there are few of them. */
  #listOf(asked: LookedFor): LiveList {
    const isAll = asked.find === "" && !asked.needsMe;
    return isAll ? this.#all : new LiveList(this.#ground, filterOf(asked));
  }

  /** Whoever follows is let go. */
  stop(): void {
    this.#ending.abort();
    for (const follower of this.#followers.keys()) follower.end();
    this.#followers.clear();
  }

  async #followOn(): Promise<void> {
    const { time, logger } = this.#ground;
    const { signal } = this.#ending;
    this.#isFollowing = true;
    for (let quiet = 0; this.#followers.size > 0 && !signal.aborted; quiet += 1) {
      try {
        const followed = new Set([...this.#followers.values()].map(({ list }) => list));
        await Promise.all([...followed].map((list) => list.refresh()));
        if (this.#tell()) quiet = 0;
        else if (quiet % QUIET_ROUNDS === QUIET_ROUNDS - 1) {
          for (const follower of this.#followers.keys()) follower.send("still-there");
        }
      } catch (cause) {
        logger.warn({ err: cause }, "the page of payments could not be brought up to date");
      }
      await time.sleep(AGAIN_MS, signal);
    }
    this.#isFollowing = false;
  }

  /** Whether there was something to tell. */
  #tell(): boolean {
    let isTold = false;
    for (const [follower, { list, after }] of this.#followers) {
      if (after === list.version) continue;
      isTold = true;
      this.#followers.set(follower, { list, after: list.version });
      const changes = list.changes(after);
      for (const [index, data] of changes.entries()) {
        // Whoever is cut off before the last part asks for all of them again.
        const version = index === changes.length - 1 ? list.version : after;
        follower.send({ version, data });
      }
    }
    return isTold;
  }
}
