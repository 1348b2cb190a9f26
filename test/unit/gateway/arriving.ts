/** A request as far as its client is read from it. */
import { IncomingMessage } from "node:http";
import { Socket } from "node:net";

export interface Arriving {
  readonly rawHeaders: readonly string[];
  /** Undefined: the connection is gone. */
  readonly peer: string | undefined;
  readonly encrypted?: boolean;
}

export function arriving({ rawHeaders, peer, encrypted = false }: Arriving): IncomingMessage {
  const socket = new Socket();
  Object.defineProperty(socket, "remoteAddress", { value: peer });
  Object.defineProperty(socket, "encrypted", { value: encrypted });
  const message = new IncomingMessage(socket);
  message.rawHeaders = [...rawHeaders];
  // Node's parser says how many there are; nobody else can.
  const pairs = rawHeaders.flatMap((name, index) =>
    index % 2 === 0 ? [[name.toLowerCase(), rawHeaders[index + 1]]] : [],
  );
  Object.defineProperty(message, "headers", { value: Object.fromEntries(pairs) });
  return message;
}
