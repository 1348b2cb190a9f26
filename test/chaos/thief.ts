/**
 * A thief with nothing but public knowledge: sees each payment as soon as the node has its transaction, puts
 * the same payment together again from the call data, and shows it at every gateway from an address of his
 * own, in the header of either version, at once and again later. He knows what each payment is for, as one who has watched the shop would.
 */
import { request } from "node:http";
import { text } from "node:stream/consumers";
import { setTimeout as pause } from "node:timers/promises";
import { concat, decodeFunctionData, parseAbi, toHex, type Hex } from "viem";
import { PAYMENT_HEADERS } from "../../src/x402/header.ts";
import type { PaymentPayload, PaymentRequirements } from "../../src/x402/x402.ts";
import { inBoth, VERSIONS } from "../support/buyer.ts";
import type { Chain } from "../support/chain.ts";
import type { Random } from "../simulation/random.ts";

/** Where his requests come from. */
export const THIEF_ADDRESS = "127.0.0.2";
/** How often he looks at the node, milliseconds. */
const WATCH_MS = 50;
/** How often he shows a payment at each gateway at once, each time on a new connection: to some worker. */
const AT_ONCE = 3;
/** How often he shows it again, and how long afterwards at most, milliseconds. */
const AGAIN = 4;
const AGAIN_MS = 15_000;
/** How likely he asks for another target of what was bought. */
const ELSEWHERE = 0.1;
/** Longest wait for an answer, milliseconds. */
const ANSWER_MS = 40_000;

const abi = parseAbi([
  "function transferWithAuthorization(address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, uint8 v, bytes32 r, bytes32 s)",
  "function transferWithAuthorization(address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, bytes signature)",
  "function aggregate3((address target, bool allowFailure, bytes callData)[] calls) payable returns ((bool success, bytes returnData)[] returnData)",
]);

export interface ThiefOptions {
  /** Else he does nothing. */
  readonly isAwake: boolean;
  readonly chain: Chain;
  readonly gateways: readonly string[];
  /** What an item costs. */
  readonly offer: PaymentRequirements;
  /** What a payment is for, by its nonce; undefined for what no customer has signed. */
  readonly itemOf: (nonce: string) => string | undefined;
  readonly chance: Random;
}

export class Thief {
  readonly #options: ThiefOptions;
  readonly #seen = new Set<string>();
  readonly #showing = new Set<Promise<void>>();
  readonly #over = new AbortController();
  readonly #watching: Promise<void>;
  #block = 0n;
  /** How often he has shown a payment. */
  shows = 0;
  /** Items of the good answers that he got. */
  readonly loot: string[] = [];
  readonly answers: Record<number, number> = {};

  constructor(options: ThiefOptions) {
    this.#options = options;
    this.#watching = options.isAwake ? this.#watch() : Promise.resolve();
  }

  /** Payments that he has seen. */
  get payments(): number {
    return this.#seen.size;
  }

  /** Resolves when he has had his last answer. */
  async stop(): Promise<void> {
    this.#over.abort();
    await this.#watching;
    await Promise.all(this.#showing);
  }

  async #watch(): Promise<void> {
    const { signal } = this.#over;
    while (!signal.aborted) {
      // A node that is busy closes connections; he looks again.
      const seen = await Promise.all([this.#waiting(), this.#mined()]).catch(() => []);
      for (const input of seen.flat()) {
        for (const stolen of paymentsIn(input, this.#options.chain)) this.#see(stolen);
      }
      await pause(WATCH_MS);
    }
  }

  /** The call data of what is in no block. */
  async #waiting(): Promise<readonly Hex[]> {
    const { pending = {}, queued = {} } = Object(await this.#options.chain.rpc("txpool_content"));
    return [pending, queued].flatMap((pool) =>
      Object.values(pool).flatMap((byNonce) => Object.values(Object(byNonce)).map(inputOf)),
    );
  }

  async #mined(): Promise<readonly Hex[]> {
    const { chain } = this.#options;
    const head = BigInt(String(await chain.rpc("eth_blockNumber")));
    const found: Hex[] = [];
    for (; this.#block < head; this.#block += 1n) {
      const block = await chain.rpc("eth_getBlockByNumber", [toHex(this.#block + 1n), true]);
      found.push(...Object(block).transactions.map(inputOf));
    }
    return found;
  }

  #see({ nonce, paymentPayload }: Stolen): void {
    const { itemOf, gateways, offer, chance } = this.#options;
    const item = itemOf(nonce);
    if (this.#seen.has(nonce) || item === undefined) return;
    this.#seen.add(nonce);
    const headers = inBoth({ paymentPayload, paymentRequirements: offer });
    const show = (gateway: string, inMs: number, count: number): void => {
      const wanted = chance.chance(ELSEWHERE) ? `${item}?more` : item;
      const version = VERSIONS[count % VERSIONS.length] ?? VERSIONS[0];
      const line = { [PAYMENT_HEADERS[version]]: headers[version] };
      const showing = this.#show(gateway, wanted, line, inMs);
      this.#showing.add(showing);
      void showing.finally(() => this.#showing.delete(showing));
    };
    for (const gateway of gateways) {
      for (let count = 0; count < AT_ONCE; count += 1) show(gateway, 0, count);
    }
    for (let count = 0; count < AGAIN; count += 1) {
      const gateway = gateways[chance.between(0, gateways.length - 1)] ?? "";
      show(gateway, chance.between(0, AGAIN_MS), count);
    }
  }

  async #show(gateway: string, item: string, line: Line, inMs: number): Promise<void> {
    await pause(inMs, undefined, { signal: this.#over.signal }).catch(() => undefined);
    this.shows += 1;
    const status = await ask(`${gateway}/items/${item}`, line);
    this.answers[status] = (this.answers[status] ?? 0) + 1;
    if (status >= 200 && status < 400) this.loot.push(item);
  }
}

interface Stolen {
  readonly nonce: string;
  readonly paymentPayload: PaymentPayload;
}

type Line = Readonly<Record<string, string>>;

function inputOf(transaction: unknown): Hex {
  return Object(transaction).input;
}

/** The payments that call data carries, as their buyers have presented them. */
export function paymentsIn(input: Hex, { network }: Pick<Chain, "network">): readonly Stolen[] {
  let call: ReturnType<typeof decodeFunctionData<typeof abi>>;
  try {
    call = decodeFunctionData({ abi, data: input });
  } catch {
    return [];
  }
  if (call.functionName === "aggregate3") {
    return call.args[0].flatMap(({ callData }) => paymentsIn(callData, { network }));
  }
  const [from, to, value, validAfter, validBefore, nonce, first, r, s] = call.args;
  const signature =
    typeof first === "string" ? first : concat([r ?? "0x", s ?? "0x", toHex(first, { size: 1 })]);
  const authorization = {
    from,
    to,
    value: value.toString(),
    validAfter: validAfter.toString(),
    validBefore: validBefore.toString(),
    nonce,
  };
  const paymentPayload = {
    x402Version: 1,
    scheme: "exact",
    network: network.name,
    payload: { signature, authorization },
  };
  return [{ nonce: nonce.toLowerCase(), paymentPayload }];
}

/** Resolves with the status, 0 where no answer came; each time on a connection of its own. */
function ask(url: string, headers: Line): Promise<number> {
  return new Promise((resolve) => {
    const options = {
      localAddress: THIEF_ADDRESS,
      agent: false,
      headers,
      signal: AbortSignal.timeout(ANSWER_MS),
    };
    const asking = request(url, options, (answer) => {
      text(answer).then(
        () => resolve(answer.statusCode ?? 0),
        () => resolve(0),
      );
    });
    asking.on("error", () => resolve(0));
    asking.end();
  });
}
