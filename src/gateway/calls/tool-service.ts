/** What answers messages to the tools of a site, as the gateway sees it, and what it may ask the gateway for. */
import type { NotHeld } from "../held-response.ts";
import type { InboundRequest } from "../message/inbound.ts";
import type { AskedCall } from "./call-request.ts";

/** A call for one route, and for no other that its path may be read as. */
export interface RoutedCall extends AskedCall {
  /** Key of the route. */
  readonly route: string;
}

/** What has become of it. */
export type CallOutcome =
  | {
      readonly kind: "answered";
      readonly status: number;
      /** Raw pairs. */
      readonly headers: readonly (readonly [string, string])[];
      readonly body: Uint8Array;
    }
  /** Its path is another route's, or none's. */
  | { readonly kind: "elsewhere" }
  /** There was an answer, which is more than a message holds; null: it was broken off, or its client has left. */
  | {
      readonly kind: "not-held";
      readonly why: NotHeld | null;
      readonly headers: readonly (readonly [string, string])[];
    };

export type AskCall = (call: RoutedCall) => Promise<CallOutcome>;

/** A message with JSON as its body. */
export interface ToolMessage {
  readonly body: unknown;
  /** By lower-case names. */
  readonly headers: InboundRequest["headers"];
  /** Its client has left. */
  readonly signal: AbortSignal;
}

/** What the tools of a site answer; they ask for what a call means. */
export interface ToolService {
  /** Never rejects for what a client has sent. */
  answer(
    message: ToolMessage,
    ask: AskCall,
  ): Promise<{ readonly status: number; readonly type: string | null; readonly body: string }>;
}
