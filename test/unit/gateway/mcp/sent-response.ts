/** A client's answer as it is sent: what tests look at of it, and nothing of a connection. */
import { EventEmitter } from "node:events";
import type { InboundResponse } from "../../../../src/gateway/message/inbound.ts";

/** Tells `ended` when it has. */
export class SentResponse extends EventEmitter implements InboundResponse {
  text = "";
  head: readonly unknown[] = [];
  lines: readonly string[] = [];
  headersSent = false;
  destroyed = false;
  writableFinished = false;
  writableEnded = false;
  readonly writableLength = 0;
  writeHead(status: number, ...rest: [string[]] | [string, string[]]): void {
    this.head = [status, ...rest];
    this.lines = rest.length === 1 ? rest[0] : rest[1];
    this.headersSent = true;
  }
  writeContinue(): void {}
  flushHeaders(): void {}
  addTrailers(): void {}
  write(chunk: Uint8Array): boolean {
    this.text += Buffer.from(chunk).toString();
    return true;
  }
  end(chunk?: Uint8Array | string): void {
    if (chunk !== undefined) this.text += Buffer.from(chunk).toString();
    this.writableEnded = true;
    this.emit("ended");
  }
  destroy(): void {
    this.destroyed = true;
  }
}
