/**
 * The script of the paywall page: finds wallets, has a payment signed, sends it with the same request that the
 * browser made, and shows what came. Everything that the shop, the wallet or the backend says becomes text.
 */
import { showAnswer } from "./bought.ts";
import { button, byId, link, make } from "./element.ts";
import { otherWays } from "./elsewhere.ts";
import { findEvmWallets } from "./evm.ts";
import { drop, forget, keep, move, recall, type KeptInBrowser } from "./kept.ts";
import {
  allOffers,
  ended,
  exactPrice,
  NotPaid,
  TooPoor,
  type PayableOffer,
  type PageData,
} from "./offer.ts";
import { base64, PAYMENT_HEADER, readHeader } from "./protocol.ts";
import { receiptOf } from "./receipt.ts";
import {
  accountLines,
  closeSession,
  openSession,
  shortOf,
  whoIsIn,
  type PageAccount,
} from "./session.ts";
import { findSolanaWallets } from "./solana.ts";
import { askShop, askTerms, UNSPENT } from "./terms.ts";
import type { Wallet } from "./wallet.ts";
import { MAX_SHOWN, meaningOf, reasonOf, said } from "./words.ts";

interface Receipt {
  readonly success?: boolean;
  readonly transaction?: string;
  readonly payer?: string;
}

const UNCHARGED = "Nothing was charged.";
const UNCHARGED_AGAIN = "Nothing more was charged.";
const NO_WALLET = "Install one and reload, or pay with a phone.";
const UNKNOWN =
  "It is not known yet whether the payment went through. Do not pay again: send the same payment once more.";
const TRY_AGAIN = "Try again: nothing is charged twice.";
const LATER = "Send the same payment again a little later.";
const SIGN_AGAIN = "Sign again with the same account: that is not charged.";
const PAID_ELSEWHERE =
  "You have paid, but the answer leads elsewhere, where this page cannot follow. Ask the seller.";
/** Refusals of a payment that was taken before. */
const WAS_TAKEN = /used|paid in/;
/** What is owed goes to its payer, who proves himself by a signature that is not charged. */
const OWED = /sign a new payment: it /;
/** It was paid, and nobody but the seller can help now. */
const LOST = /ask the seller/;
const BROKEN = "The connection was lost.";
const LOOK = "Look at your balance before you pay again.";
const ACCEPT = "text/html,*/*;q=.8";

const main = byId("main");
const form = byId("form") as HTMLFieldSetElement;
const places = byId("wallets");
const phone = byId("phone") as HTMLDetailsElement;
/** Other ways to pay. */
const more = byId("more");
const steps = byId("steps");
const status = byId("status");
const retry = byId("retry");
const bought = byId("bought");
const host = byId("host");
const data: PageData = JSON.parse(byId("offers").textContent);
const offers = allOffers(data);
const boxes = [...document.querySelectorAll("input")];
const wallets = new Map<unknown, Wallet>();
/** What the page itself has marked. */
let preset = 0;
/** Who is signed in. */
let account: PageAccount | null = null;

function say(text: string, isBad = false): void {
  status.textContent = text;
  status.className = isBad ? "bad" : "";
  if (isBad) status.focus();
}

/** Shows where a purchase is: at signing, paying or delivery, from 0; -1: nowhere. */
function step(now: number): void {
  steps.hidden = now < 0;
  for (const [index, each] of [...steps.children].entries()) {
    each.className = index < now ? "done" : "";
    if (index === now) each.setAttribute("aria-current", "step");
    else each.removeAttribute("aria-current");
  }
}

function marked(): number {
  return boxes.findIndex(({ checked }) => checked);
}

/** The first offer that somebody here can pay is marked, as long as the buyer has marked no other. */
function preselect(): void {
  const able = offers.findIndex((offer) => canPay(offer).length > 0);
  const box = boxes[able];
  if (!box || marked() !== preset) return;
  preset = able;
  box.checked = true;
}

function canPay(offer: PayableOffer): readonly Wallet[] {
  return [...wallets.values()].filter((wallet) => wallet.canPay(offer));
}

/** Tells of the chosen offer, with one button for each wallet that can pay it. */
function offerWallets(): void {
  const offer = offers[marked()];
  if (!offer) return;
  const { price, payTo, account: page, explorer, isTest, name } = offer;
  byId("price").textContent = price;
  byId("exact").textContent = exactPrice(offer);
  byId("test").hidden = !isTest;
  const payee = byId("payee") as HTMLAnchorElement;
  payee.textContent = shortOf(payTo);
  payee.title = payTo;
  payee.href = page
    ? page.replace("{address}", payTo)
    : explorer.replace("tx/{hash}", `address/${payTo}`);
  const able = canPay(offer);
  places.replaceChildren(
    ...(account ? accountLines(account, data, spend) : []),
    ...(able.length > 0
      ? able.map((wallet) =>
          button(`Pay ${price} with ${wallet.name}`, () => void pay(wallet, offer)),
        )
      : [make("p", `No wallet for ${name} was found in this browser. ${NO_WALLET}`)]),
    ...(account ? [signOut()] : []),
    ...(data.asksWho && !account ? able : []).map((wallet) =>
      quiet(`Bought before, or a member? Sign in with ${wallet.name}`, () =>
        collect(wallet, offer),
      ),
    ),
  );
  phone.hidden = false;
  phone.open = able.length === 0;
  showWays();
}

function signOut(): HTMLElement {
  return quiet("Sign out", async () => {
    form.disabled = true;
    await closeSession().then(
      () => location.reload(),
      (cause) => refuse(reasonOf(cause)),
    );
  });
}

/** Asks who is signed in, and what is in his balance now. */
async function look(): Promise<void> {
  account = await whoIsIn(data);
  offerWallets();
}

/** By the session alone: what was said before is debited once, since nothing else can be pressed meanwhile. */
async function spend(offer: PayableOffer): Promise<void> {
  form.disabled = true;
  retry.replaceChildren();
  const payment = presentable();
  if (payment) return present(payment);
  try {
    await askTerms(offer, "");
    say("Paying from your balance.");
    const response = await askShop("", /^2|402/, { Accept: ACCEPT });
    // What was used a moment ago may still have been in the balance that was told.
    if (response.status === 402) throw new NotPaid("This was not paid from your balance.");
    await arrive({ header: "", offer, soldMs: Date.now() }, response);
  } catch (cause) {
    refuse(`${reasonOf(cause)} ${LOOK}`);
    await look();
  }
}

async function arrive(bare: KeptInBrowser, response: Response): Promise<void> {
  const kept = withReceipt(bare, receiptIn(response), response);
  await deliver(kept, response).catch(() => {
    throw new NotPaid(BROKEN);
  });
}

function showWays(): void {
  const offer = offers[marked()];
  if (offer && phone.open) byId("ways").replaceChildren(...otherWays(offer));
}

async function pay(wallet: Wallet, offer: PayableOffer): Promise<void> {
  form.disabled = true;
  retry.replaceChildren();
  step(0);
  // Another tab may have paid meanwhile: of two payments of one browser only one is ever sent.
  const payment = presentable() ?? (await signed(wallet, offer));
  if (payment) await present(presentable() ?? payment);
}

/**
 * What its owner has here already, for one signature of his wallet: a session, and what that opens without a charge. Who
 * has no session, and still some of what is free for anybody, gets that by the signature itself.
 */
async function collect(wallet: Wallet, offer: PayableOffer): Promise<void> {
  form.disabled = true;
  retry.replaceChildren();
  try {
    const header = await wallet.signIn(offer, say);
    const isIn = await openSession(header);
    const proof = isIn ? UNSPENT : { "SIGN-IN-WITH-X": header };
    const response = await askShop("", isIn ? /^2|402/ : /^2/, { Accept: ACCEPT, ...proof });
    // The page says then what it costs him.
    if (response.status === 402) return location.reload();
    if (isIn) account = await whoIsIn(data);
    await arrive({ header: "", offer, soldMs: 0 }, response);
  } catch (cause) {
    refuse(reasonOf(cause));
  }
}

function presentable(): KeptInBrowser | null {
  const kept = recall(data.again);
  return kept?.header ? kept : null;
}

/** Null: it is not, and why has been said. */
async function signed(wallet: Wallet, offer: PayableOffer): Promise<KeptInBrowser | null> {
  try {
    const payment = await wallet.sign(offer, say);
    // Of what the shop says, and is repeated here, not all has to be ASCII.
    const header = base64(new TextEncoder().encode(JSON.stringify(payment)));
    return { name: PAYMENT_HEADER, header, offer, soldMs: 0 };
  } catch (cause) {
    refuse(`${reasonOf(cause)} ${UNCHARGED}`);
    if (cause instanceof TooPoor) retry.append(...otherWays(offer, true));
    return null;
  }
}

/** Back to where a payment can be signed. */
function refuse(text: string, kept?: KeptInBrowser): void {
  if (kept) forget(kept);
  form.disabled = form.hidden = more.hidden = false;
  step(-1);
  say(text, true);
}

/** Nothing can be signed until it is known what became of this payment. */
function holdOn(kept: KeptInBrowser, text: string, ...more: readonly (Node | string)[]): void {
  const again = button("Try again with the same payment", () => present(kept));
  retry.replaceChildren(again, ...more, proofOf(kept));
  step(-1);
  say(text, true);
}

async function present(sent: KeptInBrowser): Promise<void> {
  keep(sent);
  form.hidden = more.hidden = true;
  retry.replaceChildren();
  step(1);
  say(sent.soldMs ? "You have paid: asking for it again." : "Paying. This can take a few seconds.");
  const headers = { Accept: ACCEPT, [sent.name ?? "X-PAYMENT"]: sent.header };
  // The empty URL is this page's own.
  const ask = (redirect: RequestRedirect): Promise<Response> =>
    fetch("", { headers, cache: "no-store", redirect });
  let kept = sent;
  try {
    // Nothing comes for a redirect to another host, as if the connection had failed: only `manual` tells.
    const response = await ask("follow").catch(() => ask("manual"));
    const receipt = receiptIn(response);
    kept = withReceipt(sent, receipt, response);
    const isElsewhere = response.redirected && !response.ok;
    if (isElsewhere && response.status === 402) holdOn(kept, dearer(response), help());
    else if (isElsewhere || response.type === "opaqueredirect")
      holdOn(kept, PAID_ELSEWHERE, help());
    else if (response.ok)
      await deliver((kept = { ...kept, soldMs: kept.soldMs || Date.now() }), response);
    else await explain(kept, response, receipt?.success);
  } catch {
    const said = kept.soldMs ? `You have paid. ${TRY_AGAIN}` : UNKNOWN;
    holdOn(kept, `${BROKEN} ${said}`);
  }
}

/** What was kept may be older than a page of version 2. */
function receiptIn(response: Response): Receipt | null {
  const told = readHeader(response, "X-PAYMENT-RESPONSE");
  return (IS_V2 ? (told ?? readHeader(response, "PAYMENT-RESPONSE")) : told) as Receipt | null;
}

/** The answer leads to what its payment is not enough for. */
function dearer({ url }: Response): string {
  const place = new URL(url).pathname.slice(0, MAX_SHOWN);
  return `You have paid, but the answer leads to ${place}, which has a price of its own. Ask the seller before you pay that.`;
}

function withReceipt(
  kept: KeptInBrowser,
  receipt: Receipt | null,
  { headers }: Response,
): KeptInBrowser {
  const { success, transaction = "", payer = account?.payer ?? "" } = receipt ?? {};
  // A metered answer that was paid on chain says so, too: there the transaction is what was paid.
  const charged = (!transaction && headers.get("X-402-Charged")) || undefined;
  if (!charged && !(success && transaction)) return kept;
  const seller = byId("seller").textContent;
  const item = byId("item").textContent;
  return { ...kept, receipt: { seller, item, url: location.href, transaction, charged, payer } };
}

/** Every answer but the one that was paid for. */
async function explain(
  kept: KeptInBrowser,
  response: Response,
  isPaid: boolean | undefined,
): Promise<void> {
  const { status: code } = response;
  const body = await response.json().catch(() => null);
  const error = String(body?.error ?? "");
  const isRefusal = (code === 402 || code === 400) && /: /.test(error);
  const faults: unknown = code === 400 && body?.faults;
  if (isPaid) keep(kept);
  if (OWED.test(error)) {
    refuse(`Not delivered: ${ended(error.split(";")[0] ?? "")} ${SIGN_AGAIN}`, kept);
  } else if (isPaid && code >= 400 && code < 500) {
    const what = code === 404 ? "has nothing at this address" : "cannot use this request";
    const own = said(body);
    const words = `You have paid, but the seller's server ${what} (${code}). ${own && `It says: ${ended(own)} `}Ask for something else with the same payment: nothing is charged twice.`;
    holdOn(kept, words, otherQuery(kept), help());
  } else if (isPaid) {
    const words = `You have paid, but the seller's server answered with an error (${code}). ${TRY_AGAIN}`;
    holdOn(kept, words, help());
  } else if (Array.isArray(faults)) {
    unfit(kept, faults.map(String));
  } else if (LOST.test(error)) {
    holdOn(kept, `Not delivered: ${ended(error)}`, help(), startAnew("Forget this payment", kept));
  } else if (isRefusal && kept.from !== undefined) {
    goBack(kept.from, `${meaningOf(error)} ${UNCHARGED_AGAIN}`);
  } else if (isRefusal) {
    // A refusal has a code. Without one nobody has looked at the payment: its version is spoken no more.
    refuse(`${meaningOf(error)} ${WAS_TAKEN.test(error) ? UNCHARGED_AGAIN : UNCHARGED}`, kept);
    if (/funds/.test(error)) retry.replaceChildren(...poor(kept));
  } else if (error.includes("unexpected_settle_error")) {
    holdOn(kept, UNKNOWN);
  } else {
    holdOn(kept, `Not yet: ${ended(error || `${code}`)} ${LATER}`);
  }
}

/** It was signed for another query, and is kept there. */
function goBack(from: string, text: string): void {
  drop(location.search);
  form.hidden = true;
  step(-1);
  say(text, true);
  const back = link("Back to what was paid for", location.pathname + from);
  retry.replaceChildren(back, help());
}

/** What is asked for lacks something, which the shop has seen before it took any payment. */
function unfit(kept: KeptInBrowser, faults: readonly string[]): void {
  const words = `This cannot be asked for so: ${ended(faults.join("; ").slice(0, MAX_SHOWN))}`;
  if (kept.from === undefined) {
    refuse(`${words} ${UNCHARGED}`, kept);
    retry.replaceChildren(otherAddress());
  } else {
    goBack(kept.from, `${words} ${UNCHARGED_AGAIN}`);
    retry.prepend(otherQuery(kept));
  }
}

function poor(kept: KeptInBrowser): readonly Node[] {
  const offer = offerOf(kept);
  return offer ? otherWays(offer, true) : [];
}

/** Asks the same path for something else with the same payment. */
function otherQuery(kept: KeptInBrowser): HTMLElement {
  return asking("Query", location.search.slice(1), "Ask with the same payment", (written) => {
    const url = new URL(location.href);
    url.search = written;
    move(kept, url.search);
    return url;
  });
}

/** Asks this shop for something else, of which the price is seen first. */
function otherAddress(): HTMLElement {
  const own = location.pathname + location.search;
  return asking("Address", own, "Ask", (written) => {
    const url = URL.parse(written, location.origin);
    return url?.origin === location.origin ? url : location;
  });
}

function asking(
  name: string,
  value: string,
  action: string,
  urlOf: (written: string) => Pick<URL, "href">,
): HTMLElement {
  const place = make("form");
  const label = make("label", name);
  const written = make("input");
  written.value = value;
  label.append(written);
  place.append(label, make("button", action));
  place.addEventListener("submit", (event) => {
    event.preventDefault();
    const { href } = urlOf(written.value);
    if (href === location.href) location.reload();
    else location.href = href;
  });
  return place;
}

/** Where the seller can be asked; a text without content where nobody says. */
function help(): Node | string {
  const asking = document.getElementById("support") as HTMLAnchorElement | null;
  return asking ? link(asking.textContent, asking.href) : "";
}

async function deliver(kept: KeptInBrowser, response: Response): Promise<void> {
  const { header, soldMs, receipt } = kept;
  if (header || receipt?.charged) keep(kept);
  if (kept.from !== undefined) drop(kept.from);
  step(2);
  const isPaid = receipt || soldMs;
  say(isPaid ? "Paid: it is being delivered." : "It is being delivered.");
  const goods = make("div");
  bought.replaceChildren(goods);
  bought.hidden = false;
  await showAnswer(response, goods);
  const title = make("h1", (document.title = isPaid ? "Paid: here it is" : "Here it is"));
  title.tabIndex = -1;
  main.hidden = true;
  const again = isPaid ? "Buy it again" : "Back to the offer";
  const out = account ? signOut() : "";
  bought.replaceChildren(title, goods, proofOf(kept), startAnew(again, kept), out);
  title.focus();
}

function offerOf({ offer }: KeptInBrowser): PayableOffer | undefined {
  return typeof offer === "number" ? offers[offer] : offer;
}

/** The receipt; before there is one, and where none was given, that there is none. */
function proofOf(kept: KeptInBrowser): Node | string {
  const { receipt, soldMs } = kept;
  if (receipt) return receiptOf(kept, receipt, offerOf(kept));
  return soldMs ? make("p", "The answer came without a receipt.") : "";
}

function startAnew(text: string, kept: KeptInBrowser): HTMLElement {
  return quiet(text, () => {
    if (kept.header) forget(kept);
    location.reload();
  });
}

function quiet(text: string, act: () => unknown): HTMLElement {
  const made = button(text, act);
  made.className = "quiet";
  return made;
}

host.textContent ||= location.host;
const asked = location.pathname + location.search;
byId("what").textContent = `GET ${asked.slice(0, MAX_SHOWN)}${asked.length > MAX_SHOWN ? "…" : ""}`;
const url = document.getElementById("url");
if (url) url.textContent = JSON.stringify(location.href);
form.addEventListener("change", offerWallets);
phone.addEventListener("toggle", showWays);
// Some browsers restore what was chosen before a reload as late as this.
addEventListener("pageshow", offerWallets);
const add = (wallet: Wallet): void => {
  wallets.set(wallet.id, wallet);
  preselect();
  offerWallets();
};
findEvmWallets(data.seconds, add);
findSolanaWallets(add);
offerWallets();
void look();
const earlier = recall(data.again);
if (earlier?.header) void present(earlier);
else if (earlier) {
  const past = make("details");
  const when = new Date(earlier.soldMs).toLocaleString();
  past.append(make("summary", `You paid for this on ${when}`), proofOf(earlier));
  retry.append(past);
}
