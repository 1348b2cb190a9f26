/**
 * Who is signed in here, and what he has prepaid. The session itself is a cookie that no script reads: where balances are
 * told the shop is asked whose it is, and elsewhere the page remembers whom it has signed in.
 */
import { button, link, make } from "./element.ts";
import { allOffers, amountText, isEvm, type PageData, type PayableOffer } from "./offer.ts";
import { askShop } from "./terms.ts";

const SIGN_IN = "/.well-known/x402/sign-in";
/** Until when whose session this is, milliseconds since the epoch and an address. */
const NAME = "coinslot-session";

interface Credits {
  readonly family: string;
  readonly token: string;
  /** Atomic units. */
  readonly amount: string;
}

export interface PageAccount {
  readonly payer: string;
  readonly credits?: readonly Credits[];
  /** Where more is bought. */
  readonly buy?: string | null;
}

/**
 * Exchanges a signed challenge for a session. False: there is none for this account, and the challenge is not used up.
 * @throws {NotPaid}
 */
export async function openSession(signIn: string): Promise<boolean> {
  const headers = { "SIGN-IN-WITH-X": signIn };
  const response = await askShop(SIGN_IN, /^2|403/, headers, "POST");
  if (!response.ok) return false;
  const { payer, expiresAt } = await response.json();
  try {
    localStorage.setItem(NAME, `${Date.parse(expiresAt)} ${payer}`);
  } catch {}
  return true;
}

/** @throws {NotPaid} */
export async function closeSession(): Promise<void> {
  await askShop(SIGN_IN, /^2/, {}, "DELETE");
  try {
    localStorage.removeItem(NAME);
  } catch {}
}

/** Null: nobody, as far as is known. */
export async function whoIsIn({ asksWho, credits }: PageData): Promise<PageAccount | null> {
  if (!asksWho) return null;
  try {
    if (credits) return await (await askShop("/.x402/balance", /^2/)).json();
    const [until, payer] = (localStorage.getItem(NAME) as string).split(" ");
    return payer && Number(until) > Date.now() ? { payer } : null;
  } catch {
    return null;
  }
}

interface Prepaid {
  /** What is debited. */
  readonly offer: PayableOffer;
  /** What there is, atomic units. */
  readonly units: bigint;
  readonly isEnough: boolean;
}

/**
 * What the shop would take from the account's balance: the least that is asked for in a family of networks, of the first
 * family whose balance has that; else what there is too little for. Undefined: nothing is sold so.
 */
function prepaidOf(
  { payer, credits = [] }: PageAccount,
  offers: readonly PayableOffer[],
): Prepaid | undefined {
  const isOnEvm = payer.startsWith("0x");
  // What is worth no dollars is not prepaid.
  const own = offers.filter((each) => isEvm(each) === isOnEvm && each.price.startsWith("$"));
  const all = own.map((first) => {
    const offer = own.reduce((least, each) => {
      const isLess = each.isTest === first.isTest && BigInt(each.amount) < BigInt(least.amount);
      return isLess ? each : least;
    }, first);
    const family = `${isOnEvm ? "evm" : "solana"}${offer.isTest ? "-testnet" : ""}`;
    const held = credits.find((each) => each.family === family && each.token === offer.symbol);
    const units = BigInt(held?.amount ?? 0);
    return { offer, units, isEnough: units >= BigInt(offer.amount) };
  });
  return all.find(({ isEnough }) => isEnough) ?? all[0];
}

/** Who is signed in, what is in his balance, and, where that is enough, a button that pays from it. */
export function accountLines(
  account: PageAccount,
  data: PageData,
  spend: (offer: PayableOffer) => unknown,
): readonly HTMLElement[] {
  const line = make("p", `Signed in as ${shortOf(account.payer)}. `);
  const prepaid = data.credits && prepaidOf(account, allOffers(data));
  if (!prepaid) return [line];
  const { offer, units, isEnough } = prepaid;
  line.append(`Your balance: ${amountText(units, offer)}. `);
  if (!isEnough) line.append(`That is too little to pay ${offer.price} from it. `);
  if (account.buy) line.append(link("Buy more", account.buy));
  if (!isEnough) return [line];
  const most = data.metered ? "up to " : "";
  return [button(`Pay ${most}${offer.price} from your balance`, () => spend(offer)), line];
}

/** An address as it is shown. */
export function shortOf(address: string): string {
  return `${address.slice(0, 6)}…${address.slice(-4)}`;
}
