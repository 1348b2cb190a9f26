import type { StoredResponse } from "../ledger/ledger.ts";
import type { Answer } from "./answers.ts";
import type { InboundResponse } from "./message/inbound.ts";

/** How a client is spoken to that has a protocol of its own over HTTP. */
export interface Speech {
  /** An answer of our own, in its words. */
  tell(answer: Answer): Answer;
  /** What a backend's answer is written to, in place of the client's response. */
  through(response: InboundResponse): InboundResponse;
  /** A kept answer, for this request. */
  again(kept: StoredResponse): StoredResponse;
}
