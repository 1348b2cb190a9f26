/** A seller that says whatever a test wants, in either version of the protocol. */
import { createServer, type OutgoingHttpHeaders, type RequestListener } from "node:http";
import { drain, listen } from "../../../src/gateway/listener/listener.ts";

export interface OddSeller {
  readonly url: string;
  /** Every payment that came, in order. */
  readonly payments: readonly string[];
}

/** Asks with that 402; what is paid is answered by the steps, the last one again and again. */
export async function openSeller(
  closing: AsyncDisposableStack,
  asking: { readonly headers?: OutgoingHttpHeaders; readonly body?: string },
  ...steps: readonly RequestListener[]
): Promise<OddSeller> {
  const payments: string[] = [];
  const server = createServer((request, response) => {
    const payment = request.headers["payment-signature"] ?? request.headers["x-payment"];
    if (payment === undefined) return void response.writeHead(402, asking.headers).end(asking.body);
    payments.push(String(payment));
    const step = steps[Math.min(payments.length, steps.length) - 1];
    if (step === undefined) response.end("sold");
    else step(request, response);
  });
  const { port } = await listen(server, { host: "127.0.0.1", port: 0 });
  closing.defer(() => drain(server, AbortSignal.abort()));
  return { url: `http://127.0.0.1:${port}/thing`, payments };
}
