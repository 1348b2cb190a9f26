/**
 * What a route costs: its price in every token that it accepts. A route's own `accept` replaces the
 * global one. An entry with an amount costs that amount; one without costs the route's price, which the
 * token must be able to express exactly.
 */
import { parseDollars, type AtomicAmount } from "../../x402/amount.ts";
import {
  NETWORK_NAMES,
  networkOf,
  type Asset,
  type Network,
  type NetworkName,
} from "../../x402/network.ts";
import { err, ok, type Result } from "../../x402/result.ts";
import {
  acceptedTokens,
  checkAmount,
  dollarAsset,
  type AcceptEntry,
  type AcceptedToken,
  type Assets,
  type Payees,
} from "./accepted.ts";
import type { Context } from "../reading/context.ts";
import type { AmountPrice, DollarPrice } from "./price.ts";
import type { Fault } from "../reading/problem.ts";
import { fault } from "../reading/reading.ts";
import type { Path } from "../reading/tree.ts";

/** One way to pay for a route. */
export interface OfferSettings {
  readonly network: NetworkName;
  readonly asset: Asset;
  /** EIP-55 checksummed, or base58 on Solana. */
  readonly payTo: string;
  readonly amountAtomic: AtomicAmount;
  /** The price as written (`$0.01`, `$0.01 to $0.50`); null where the amount was given in atomic units. */
  readonly dollars: string | null;
  /** Where the price is computed: the least that a request costs; {@link amountAtomic} is the most. */
  readonly leastAtomic?: AtomicAmount;
}

type Price = DollarPrice | AmountPrice;

/** What is wanted for one route. */
export interface Wanted {
  readonly price: Price | undefined;
  readonly pricePath: Path;
  readonly accept: readonly AcceptEntry[] | undefined;
  readonly payTo?: Payees | undefined;
}

/** What holds for every route that says nothing else. */
interface GlobalTerms {
  readonly accept?: readonly AcceptEntry[];
  readonly payTo?: Payees;
}

/** Whether somebody settles payments on a network. */
type Settles = (network: NetworkName) => boolean;

/** What the file says of tokens and of settlement. */
export interface PricingGround {
  readonly assets: Assets;
  readonly settles: Settles;
}

/** Of which host the routes are: its place in the file, and whom it names itself as payees. */
interface OfHost {
  readonly path: Path;
  readonly payTo: Payees | undefined;
}

const OF_FILE: OfHost = { path: [], payTo: undefined };

export class Pricing {
  readonly #context: Context;
  readonly #terms: GlobalTerms;
  readonly #assets: Assets;
  readonly #accepted: readonly AcceptedToken[];
  readonly #settles: Settles;
  readonly #host: OfHost;
  /** Where the networks stand that routes inherit. */
  readonly #acceptPath: Path;
  /** The different prices under which a global entry with its own amount is offered. */
  readonly #fixed = new Map<AcceptedToken, Set<string>>();

  constructor(
    context: Context,
    terms: GlobalTerms,
    { assets, settles }: PricingGround,
    host = OF_FILE,
  ) {
    this.#context = context;
    this.#terms = terms;
    this.#assets = assets;
    this.#settles = settles;
    this.#host = host;
    const own = [...host.path, "accept"];
    this.#acceptPath = context.tree.has(own) ? own : ["accept"];
    this.#accepted = acceptedTokens(terms.accept ?? [], this.#acceptPath, assets, context);
  }

  offers(route: Path, wanted: Wanted): readonly OfferSettings[] {
    this.#checkFacilitator(route);
    return this.#offersIn(this.#tokens(route, wanted), route, wanted);
  }

  /**
   * What costs dollars, and nothing else: other tokens of `accept`, and amounts that stand there, are for routes. `place` is
   * that of what is sold; empty where dollars are accepted nowhere.
   */
  dollarOffers(place: Path, price: DollarPrice, pricePath: Path): readonly OfferSettings[] {
    const tokens = this.#accepted.flatMap((token) => {
      const isDollar = token.asset.address === dollarAsset(token.network).address;
      return isDollar ? [{ ...token, amount: null }] : [];
    });
    const wanted = { price, pricePath, accept: undefined };
    this.#checkFacilitator(place);
    return tokens.length === 0 ? [] : this.#offersIn(tokens, place, wanted);
  }

  #offersIn(
    tokens: readonly AcceptedToken[],
    route: Path,
    wanted: Wanted,
  ): readonly OfferSettings[] {
    this.#checkPayees(route, wanted, tokens);
    if (tokens.length === 0) this.#checkPrice(wanted);
    const offers: OfferSettings[] = [];
    for (const token of tokens) {
      this.#checkSettled(token);
      const payTo = this.#payTo(token, wanted);
      const amount = this.#amount(token, wanted);
      if (!amount.ok) {
        const { path, fault } = amount.error;
        if (this.#context.tree.intact(path)) this.#context.problems.error(path, fault);
      } else if (payTo !== undefined) {
        const { network, asset } = token;
        offers.push({ network, asset, payTo, ...amount.value });
      }
    }
    return offers.sort((left, right) => rankOf(left) - rankOf(right));
  }

  /** Says where one amount stands against several prices: most likely it was meant for one of them. */
  warnOfFixedAmounts(): void {
    for (const [token, prices] of this.#fixed) {
      if (prices.size < 2) continue;
      const message = `has one amount for ${prices.size} different prices (${[...prices].join(", ")})`;
      const hint = "give the amount in the accept of each route";
      this.#context.problems.add("warning", token.path, fault("fixed-amount", message, hint));
    }
  }

  #tokens(route: Path, { accept }: Wanted): readonly AcceptedToken[] {
    const own = [...route, "accept"];
    if (accept !== undefined) {
      if (accept.length === 0 && this.#context.tree.intact(own)) {
        this.#context.problems.error(own, fault("no-accept", "must have at least one entry"));
      }
      return acceptedTokens(accept, own, this.#assets, this.#context);
    }
    const missing = this.#accepted.length === 0 && !this.#context.tree.has(own);
    if (missing && this.#context.tree.intact(this.#acceptPath) && !this.#terms.accept?.length) {
      const message = "this route is priced, but nothing says in which networks it is paid";
      this.#context.errorOnce(route, fault("no-accept", message, "add accept: [base-sepolia]"));
    }
    return this.#accepted;
  }

  /** A route may override the payee of one family of networks and leave the other's. */
  #payTo({ network }: AcceptedToken, { payTo }: Wanted): string | undefined {
    const { kind } = networkOf(network);
    return payTo?.[kind] ?? this.#terms.payTo?.[kind];
  }

  /** Every network that is accepted needs a payee of its family. */
  #checkPayees(route: Path, wanted: Wanted, tokens: readonly AcceptedToken[]): void {
    const { problems, tree } = this.#context;
    const places = [["payTo"], [...this.#host.path, "payTo"], [...route, "payTo"]];
    if (!places.every((path) => tree.intact(path))) return;
    if (this.#terms.payTo === undefined && wanted.payTo === undefined) {
      const message = "this route is priced, but nothing says who is paid";
      this.#context.errorOnce(route, fault("no-payto", message, payToHint(tokens)));
      return;
    }
    const kinds = new Set(tokens.map(({ network }) => networkOf(network).kind));
    if (!this.#checkOwnPayee(route, wanted, kinds)) return;
    for (const token of tokens) {
      const payTo = this.#payTo(token, wanted);
      const [written, ...others] = kindsOf(this.#terms.payTo);
      if (
        payTo === undefined &&
        written !== undefined &&
        others.length === 0 &&
        !kinds.has(written)
      ) {
        const path = this.#placeOfPayee(route, {}, written);
        const message = `is ${FAMILIES[written]} address, and no network of that family is accepted here`;
        problems.error(path, fault("no-payto", message, instead(networkOf(token.network).kind)));
      } else if (payTo === undefined) {
        const message = `nothing says who is paid on ${token.network}`;
        const hint = 'write payTo: { evm: "0x…", solana: … }';
        problems.error(token.path, fault("no-payto", message, hint));
      } else if (payTo === token.asset.address) {
        const message = `is the token ${token.asset.symbol} on ${token.network}, not who is paid`;
        const path = this.#placeOfPayee(route, wanted, networkOf(token.network).kind);
        problems.error(path, fault("bad-value", message, "give the address of a wallet"));
      }
    }
  }

  /** A route's own payee whose network it does not accept is never paid: the global one is, or nobody. */
  #checkOwnPayee(route: Path, wanted: Wanted, kinds: ReadonlySet<Network["kind"]>): boolean {
    const { tree, problems } = this.#context;
    const list = tree.has([...route, "accept"]) ? [...route, "accept"] : this.#acceptPath;
    const written = kindsOf(wanted.payTo);
    if (kinds.size === 0 || written.length === 0 || !tree.intact(list)) return true;
    const isPaid = written.some((kind) => kinds.has(kind));
    for (const kind of written.filter((each) => !kinds.has(each))) {
      const path = this.#placeOfPayee(route, wanted, kind);
      const message = `is not paid: this route accepts no network on which ${FAMILIES[kind]} address is`;
      const hint = `${instead(kind === "evm" ? "solana" : "evm")}, or accept ${EXAMPLES[kind]}`;
      problems.add(isPaid ? "note" : "error", path, fault("not-used", message, hint));
    }
    return isPaid;
  }

  #placeOfPayee(route: Path, { payTo }: Pick<Wanted, "payTo">, kind: Network["kind"]): Path {
    const inherited = this.#host.payTo?.[kind] === undefined ? [] : this.#host.path;
    const path = [...(payTo?.[kind] === undefined ? inherited : route), "payTo"];
    return this.#context.tree.find(path)?.kind === "mapping" ? [...path, kind] : path;
  }

  #checkFacilitator(route: Path): void {
    if (this.#context.tree.has(["facilitator"])) return;
    const message = "this route is priced, but nothing settles payments";
    this.#context.errorOnce(route, fault("no-facilitator", message, "add facilitator: https://…"));
  }

  #checkSettled({ network, path }: AcceptedToken): void {
    const { tree } = this.#context;
    if (this.#settles(network) || !tree.stands(["facilitator"])) return;
    if (!["embedded", "remote"].every((key) => tree.intact(["facilitator", key]))) return;
    const message = `nothing settles payments on ${network}`;
    const hint = `add facilitator: URL, or facilitator.embedded.networks.${network}`;
    this.#context.problems.error(path, fault("no-facilitator", message, hint));
  }

  #amount(
    token: AcceptedToken,
    { price, pricePath }: Wanted,
  ): Result<Pick<OfferSettings, "amountAtomic" | "dollars">, { path: Path; fault: Fault }> {
    const { network, asset, amount, path } = token;
    if (amount !== null) {
      if (price !== undefined) this.#noteFixed(token, price);
      return ok({ amountAtomic: amount, dollars: null });
    }
    if (price === undefined) {
      return err({ path, fault: fault("no-amount", "needs an amount: the route has no price") });
    }
    if (!("kind" in price)) {
      const { amount: amountAtomic, asset: symbol = dollarAsset(network).symbol } = price;
      if (asset.symbol !== symbol) {
        const message = "needs an amount: the price of the route is in another asset";
        return err({ path, fault: fault("no-amount", message) });
      }
      const excess = checkAmount(network, amountAtomic);
      if (excess !== undefined) return err({ path: [...pricePath, "amount"], fault: excess });
      return ok({ amountAtomic, dollars: null });
    }
    const stablecoin = dollarAsset(network);
    if (asset.address !== stablecoin.address) {
      const message = `needs an amount: dollars are paid in ${stablecoin.symbol} only`;
      return err({ path, fault: fault("no-amount", message) });
    }
    const parsed = dollarAmount(price, asset.decimals);
    if (!parsed.ok) return err({ path: pricePath, fault: parsed.error });
    const excess = checkAmount(network, parsed.value);
    if (excess !== undefined) return err({ path: pricePath, fault: excess });
    return ok({ amountAtomic: parsed.value, dollars: price.dollars });
  }

  /** Where nothing is left to pay with, a price may still be one that no network could express. */
  #checkPrice({ price, pricePath }: Wanted): void {
    if (price === undefined || !("kind" in price)) return;
    const parsed = dollarAmount(price, MOST_DECIMALS);
    if (!parsed.ok) this.#context.problems.error(pricePath, parsed.error);
  }

  #noteFixed(token: AcceptedToken, price: Price): void {
    if (!this.#accepted.includes(token)) return;
    const prices = this.#fixed.get(token) ?? new Set<string>();
    prices.add("kind" in price ? price.dollars : `${price.amount} atomic units`);
    this.#fixed.set(token, prices);
  }
}

const FAMILIES = { evm: "an EVM", solana: "a Solana" } as const;
/** A network of each family. */
const EXAMPLES = { evm: "base", solana: "solana" } as const;

function kindsOf(payTo: Payees | undefined): readonly Network["kind"][] {
  return (["evm", "solana"] as const).filter((kind) => payTo?.[kind] !== undefined);
}

/** What to write where the payee is of the other family. */
function instead(kind: Network["kind"]): string {
  return kind === "evm"
    ? 'write an EVM address: payTo: "0x…"'
    : "write the address of a Solana wallet";
}

/** Of the stablecoin that has most. */
const MOST_DECIMALS = Math.max(...NETWORK_NAMES.map((name) => dollarAsset(name).decimals));

export function dollarAmount(
  { dollars }: Pick<DollarPrice, "dollars">,
  decimals: number,
): Result<AtomicAmount, Fault> {
  const parsed = parseDollars(dollars, decimals);
  if (parsed.ok) return parsed;
  const { kind, message } = parsed.error;
  const hints: Readonly<Record<string, string>> = {
    "too-precise": `write at most ${decimals} digits behind the point`,
    zero: "write free",
  };
  return err(fault("bad-price", message, hints[kind]));
}

/** EVM before Solana: what older clients can pay stands first. */
function rankOf({ network }: OfferSettings): number {
  return networkOf(network).kind === "evm" ? 0 : 1;
}

function payToHint(tokens: readonly AcceptedToken[]): string {
  const kinds = new Set(tokens.map(({ network }) => networkOf(network).kind));
  if (!kinds.has("solana")) return 'add payTo: "0x…"';
  return kinds.has("evm") ? 'add payTo: { evm: "0x…", solana: … }' : "add payTo: { solana: … }";
}
