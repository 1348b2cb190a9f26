/** What `coinslot init` is told: options first, questions on a terminal for the rest, sensible values else. */
import { readPayee } from "../../config/listener/addresses.ts";
import { readPrice } from "../../config/routes/price.ts";
import { readBaseUrl, readNetwork, readOrigin, type Reader } from "../../config/reading/reading.ts";
import { printable } from "../../config/config.ts";
import { isNetworkName, networkOf, type NetworkName } from "../../x402/network.ts";
import { err, ok, type Result } from "../../x402/result.ts";
import type { Plan } from "./init-text.ts";
import { ask, isInteractive, say } from "../terminal.ts";

export interface InitAnswers {
  readonly upstream?: string;
  readonly publicUrl?: string;
  readonly payTo?: readonly string[];
  readonly network?: readonly string[];
  readonly facilitator?: string;
  readonly price?: string;
}

const DEFAULT_PUBLIC_URL = "http://localhost:8402";
const DEFAULT_NETWORK = "base-sepolia";
const DEFAULT_PRICE = "$0.01";
/** Free of charge, and without an account. */
const PUBLIC_FACILITATOR = "https://x402.org/facilitator";
/** Where that one settles. */
const PUBLIC_NETWORKS: ReadonlySet<NetworkName> = new Set(["base-sepolia", "solana-devnet"]);
/** How often a question is asked that is not answered usably. */
const MAX_TRIES = 5;

type Decided = Omit<Plan, "routes">;

/**
 * The plan, or a sentence on what is missing or wrong.
 * @param server the origin that an imported description names: a proposal for the upstream
 */
export async function decidePlan(
  given: InitAnswers,
  server: string | null,
): Promise<Result<Decided, string>> {
  // What cannot be guessed.
  const missing = [
    ...(given.upstream === undefined ? ["--upstream"] : []),
    ...(given.payTo === undefined ? ["--pay-to"] : []),
  ];
  if (missing.length > 0 && !isInteractive()) {
    const are = missing.length === 1 ? "is" : "are";
    const isNamed = given.upstream === undefined && server !== null;
    const named = isNamed ? `; the description names ${server}` : "";
    return err(
      `${missing.join(" and ")} ${are} missing, and there is no terminal to ask on${named}`,
    );
  }
  const interview = new Interview(missing.length > 0);
  try {
    const upstream = await interview.need(
      { flag: "--upstream", question: "Which backend is sold? (URL)", proposal: server },
      given.upstream,
      readOrigin,
    );
    const publicUrl = await interview.need(
      { flag: "--public-url", question: "Where do buyers reach it?", proposal: DEFAULT_PUBLIC_URL },
      given.publicUrl ?? interview.orDefault(DEFAULT_PUBLIC_URL),
      readBaseUrl,
    );
    const networks = await interview.need(
      { flag: "--network", question: "On which networks?", proposal: DEFAULT_NETWORK },
      given.network?.join(",") ?? interview.orDefault(DEFAULT_NETWORK),
      readNetworks,
    );
    const payTo = await askPayees(interview, given.payTo ?? [], networks);
    // The public one where it settles; elsewhere there is none that could be proposed.
    const isPublic = networks.every((name) => PUBLIC_NETWORKS.has(name));
    const proposal = isPublic ? PUBLIC_FACILITATOR : "embedded";
    const facilitator = await interview.need(
      { flag: "--facilitator", question: "Who settles? (URL, or embedded)", proposal },
      given.facilitator ?? interview.orDefault(proposal),
      (text) => (text === "embedded" ? ok(text) : readBaseUrl(text)),
    );
    const price = await interview.need(
      { flag: "--price", question: "What does a request cost?", proposal: DEFAULT_PRICE },
      given.price ?? interview.orDefault(DEFAULT_PRICE),
      readDollars,
    );
    return ok({ upstream, publicUrl, payTo, networks, facilitator, price });
  } catch (cause) {
    if (cause instanceof Unanswered) return err(cause.message);
    throw cause;
  }
}

class Unanswered extends Error {
  override readonly name = "Unanswered";
}

interface Question {
  readonly flag: string;
  readonly question: string;
  /** Taken where nothing is typed. */
  readonly proposal: string | null;
}

class Interview {
  readonly #isOpen: boolean;

  constructor(isOpen: boolean) {
    this.#isOpen = isOpen;
  }

  /** The value for whoever cannot be asked. */
  orDefault(value: string): string | undefined {
    return this.#isOpen ? undefined : value;
  }

  /** The value that is given or answered. @throws {Unanswered} */
  async need<Value>(
    { flag, question, proposal }: Question,
    given: string | undefined,
    read: Reader<Value>,
  ): Promise<Value> {
    if (given !== undefined) {
      const value = read(given);
      if (value.ok) return value.value;
      throw new Unanswered(`${flag} ${sentenceOf(value.error)}`);
    }
    for (let tries = 0; this.#isOpen && tries < MAX_TRIES; tries += 1) {
      const hint = proposal === null ? "" : ` [${printable(proposal)}]`;
      const answer = (await ask(`${question}${hint} `)) || (proposal ?? "");
      const value = read(answer);
      if (value.ok) return value.value;
      say(`  it ${sentenceOf(value.error)}`);
    }
    throw new Unanswered(`${flag} is missing, and there is no terminal to ask on`);
  }
}

function sentenceOf({ message, suggestion }: { message: string; suggestion?: string }): string {
  return suggestion === undefined ? message : `${message}; ${suggestion}`;
}

function readNetworks(text: string): ReturnType<Reader<readonly NetworkName[]>> {
  const networks: NetworkName[] = [];
  for (const name of text.split(",").map((each) => each.trim())) {
    const network = readNetwork(name);
    if (!network.ok) return network;
    if (isNetworkName(name) && !networks.includes(name)) networks.push(name);
  }
  return ok(networks);
}

async function askPayees(
  interview: Interview,
  given: readonly string[],
  networks: readonly NetworkName[],
): Promise<Plan["payTo"]> {
  const payTo: { evm?: string; solana?: string } = {};
  const kinds = new Set(networks.map((name) => networkOf(name).kind));
  for (const address of given) {
    const payee = readPayee(address);
    if (!payee.ok) throw new Unanswered(`--pay-to ${sentenceOf(payee.error)}`);
    const { kind, text } = payee.value;
    if (!kinds.has(kind)) {
      const network = kind === "evm" ? "base-sepolia" : "solana-devnet";
      throw new Unanswered(
        `--pay-to ${address} is on no network that is accepted; add --network ${network}`,
      );
    }
    if (payTo[kind] !== undefined) throw new Unanswered(`--pay-to names two payees for ${kind}`);
    payTo[kind] = text;
  }
  for (const kind of kinds) {
    const family = kind === "evm" ? "an EVM address (0x…)" : "a Solana wallet's address";
    const question = `Who is paid? (${family})`;
    payTo[kind] = await interview.need(
      { flag: "--pay-to", question, proposal: null },
      payTo[kind],
      (text) => {
        const payee = readPayee(text);
        if (!payee.ok) return payee;
        return payee.value.kind === kind
          ? ok(payee.value.text)
          : err({ code: "bad-value", message: `must be ${family}` });
      },
    );
  }
  return payTo;
}

function readDollars(text: string): ReturnType<Reader<string>> {
  const price = readPrice(text);
  if (!price.ok) return price;
  return price.value.kind === "dollars"
    ? ok(price.value.dollars)
    : err({ code: "bad-value", message: "must be a price such as $0.01: free needs no gateway" });
}
