import type { Client } from "../client/client.ts";
import type { InboundResponse } from "../message/inbound.ts";
import type { AnswerTap, Sale } from "./upstream.ts";

/** What goes along with a forwarded request; see `upstream.ts` for the meaning of each. */
export interface Passage {
  readonly client: Client;
  readonly target: string;
  readonly requestHeaders: readonly string[];
  readonly responseSet: readonly string[];
  readonly responseAdded: readonly string[];
  readonly sale: Sale | null;
  /** As of a sale, of an exchange that is none. Default: whatever is answered is passed on. */
  readonly judge?: Sale["judge"];
  /** Sees what is goods. Default: nobody does. */
  readonly tap?: AnswerTap | undefined;
  readonly removed?: ReadonlySet<string>;
  /** In place of the client it gets the answer, and breaks off when the client has gone. Default: the client gets it. */
  readonly into?: InboundResponse;
}
