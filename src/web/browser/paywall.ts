/**
 * The script of the paywall page: finds wallets, has a payment signed, sends it with the same request that the
 * browser made, and shows what came. Everything that the shop, the wallet or the backend says becomes text.
 */
import { showAnswer } from "./bought.ts";
import { button, byId, link, make } from "./element.ts";
import { findEvmWallets } from "./evm.ts";
import { keep, recall, type KeptInBrowser } from "./kept.ts";
import {
  allOffers,
  amountText,
  ended,
  NotPaid,
  type PayableOffer,
  type PageData,
} from "./offer.ts";
import { base64, PAYMENT_HEADER, readHeader } from "./protocol.ts";
import { findSolanaWallets } from "./solana.ts";
import type { Wallet } from "./wallet.ts";

interface Receipt {
  readonly success?: boolean;
  readonly transaction?: string;
}

const UNCHARGED = "Nothing was charged.";
const UNCHARGED_AGAIN = "Nothing more was charged.";
const NO_WALLET = "Install one and reload, or pay from a terminal.";
const UNKNOWN =
  "It is not known yet whether the payment went through. Do not pay again: send the same payment once more.";
const TRY_AGAIN = "Try again: nothing is charged twice.";
const LATER = "Send the same payment again a little later.";
const SIGN_AGAIN = "Sign again with the same account: that is not charged.";
const PAID_ELSEWHERE =
  "You have paid, but the answer leads elsewhere, where this page cannot follow. Ask the seller.";
const DECLINED = /4001|reject|declin|denied|cancel/i;
/** Refusals of a payment that was taken before. */
const WAS_TAKEN = /used|paid in/;
/** What is owed goes to its payer, who proves himself by a signature that is not charged. */
const OWED = /sign a new payment/;
const ACCEPT = "text/html,*/*;q=.8";

const main = byId("main");
const form = byId("form") as HTMLFieldSetElement;
const places = byId("wallets");
const status = byId("status");
const retry = byId("retry");
const bought = byId("bought");
const data: PageData = JSON.parse(byId("offers").textContent);
const offers = allOffers(data);
const wallets = new Map<unknown, Wallet>();

function say(text: string, isBad = false): void {
  status.textContent = text;
  status.className = isBad ? "bad" : "";
  if (isBad) status.focus();
}

function priceOf(offer: PayableOffer): string {
  return amountText(BigInt(offer.amount), offer);
}

/** One button for each wallet that can pay the chosen offer. */
function offerWallets(): void {
  const chosen = [...document.querySelectorAll("input")].findIndex(({ checked }) => checked);
  const offer = offers[chosen];
  if (!offer) return;
  const able = [...wallets.values()].filter((wallet) => wallet.canPay(offer));
  places.replaceChildren(
    ...(able.length > 0
      ? able.map((wallet) =>
          button(`Pay ${priceOf(offer)} with ${wallet.name}`, () => pay(wallet, chosen, offer)),
        )
      : [make("p", `No wallet for ${offer.name} was found in this browser. ${NO_WALLET}`)]),
  );
}

async function pay(wallet: Wallet, chosen: number, offer: PayableOffer): Promise<void> {
  form.disabled = true;
  const payment = await wallet.sign(offer, say).catch((cause: unknown) => {
    refuse(`${reasonOf(cause)} ${UNCHARGED}`);
  });
  if (!payment) return;
  // Of what the shop says, and is repeated here, not all has to be ASCII.
  const header = base64(new TextEncoder().encode(JSON.stringify(payment)));
  await present({ name: PAYMENT_HEADER, header, offer: chosen, soldMs: 0 });
}

/** Why nothing was signed, as a sentence. */
function reasonOf(cause: unknown): string {
  if (cause instanceof NotPaid) return cause.message;
  const { code, message } = Object(cause);
  if (DECLINED.test(`${code} ${message}`)) return "You declined in your wallet.";
  return `Your wallet says: ${ended(String(message ?? cause ?? "this is not possible"))}`;
}

/** Back to where a payment can be signed. */
function refuse(text: string): void {
  keep(null);
  form.disabled = form.hidden = false;
  say(text, true);
}

/** Nothing can be signed until it is known what became of this payment. */
function holdOn(kept: KeptInBrowser, text: string, proof: Node | string = ""): void {
  const again = button("Try again with the same payment", () => present(kept));
  retry.replaceChildren(again, proof);
  say(text, true);
}

async function present(kept: KeptInBrowser): Promise<void> {
  keep(kept);
  form.hidden = true;
  retry.replaceChildren();
  say(kept.soldMs ? "You have paid: asking for it again." : "Paying. This can take a few seconds.");
  const headers = { Accept: ACCEPT, [kept.name ?? "X-PAYMENT"]: kept.header };
  // The empty URL is this page's own.
  const ask = (redirect: RequestRedirect): Promise<Response> =>
    fetch("", { headers, cache: "no-store", redirect });
  try {
    // Nothing comes for a redirect to another host, as if the connection had failed: only `manual` tells.
    const response = await ask("follow").catch(() => ask("manual"));
    // What was kept may be older than a page of version 2.
    const told = readHeader(response, "X-PAYMENT-RESPONSE");
    const receipt = (
      IS_V2 ? (told ?? readHeader(response, "PAYMENT-RESPONSE")) : told
    ) as Receipt | null;
    const isElsewhere = response.redirected && !response.ok;
    if (isElsewhere || response.type === "opaqueredirect") holdOn(kept, PAID_ELSEWHERE);
    else if (response.ok) await deliver(kept, response, receipt);
    else await explain(kept, response, receipt);
  } catch {
    holdOn(kept, `The connection was lost. ${UNKNOWN}`);
  }
}

/** Every answer but the one that was paid for. */
async function explain(
  kept: KeptInBrowser,
  response: Response,
  receipt: Receipt | null,
): Promise<void> {
  const { status: code } = response;
  const body = await response.json().catch(() => null);
  const error = String(body?.error ?? "");
  if (OWED.test(error)) {
    refuse(`Not delivered: ${ended(error.split(";")[0] ?? "")} ${SIGN_AGAIN}`);
  } else if (receipt?.success) {
    const said = `You have paid, but the seller's server answered with an error (${code}). ${TRY_AGAIN}`;
    holdOn(kept, said, proofOf(kept, receipt));
  } else if ((code === 402 || code === 400) && /: /.test(error)) {
    // A refusal has a code. Without one nobody has looked at the payment: its version is spoken no more.
    refuse(`${meaningOf(error)} ${WAS_TAKEN.test(error) ? UNCHARGED_AGAIN : UNCHARGED}`);
  } else if (error.includes("unexpected_settle_error")) {
    holdOn(kept, UNKNOWN);
  } else {
    holdOn(kept, `Not yet: ${ended(error || `${code}`)} ${LATER}`);
  }
}

function meaningOf(error: string): string {
  if (error.includes("insufficient_funds")) return "The account holds too little.";
  if (/valid_before|lockhash/.test(error)) return "The signed payment has expired.";
  return `The payment was not accepted: ${ended(error)}`;
}

async function deliver(
  kept: KeptInBrowser,
  response: Response,
  receipt: Receipt | null,
): Promise<void> {
  const shown = await showAnswer(response);
  keep({ ...kept, soldMs: kept.soldMs || Date.now() });
  const title = make("h1", (document.title = "Paid: here it is"));
  title.tabIndex = -1;
  main.hidden = true;
  bought.hidden = false;
  bought.classList.toggle("wide", shown[0] instanceof HTMLIFrameElement);
  bought.replaceChildren(title, proofOf(kept, receipt), ...shown, buyAgain());
  title.focus();
}

/** What was paid, and where that can be looked up. */
function proofOf(kept: KeptInBrowser, receipt: Receipt | null): HTMLElement {
  const offer = offers[kept.offer];
  const { transaction } = receipt ?? {};
  if (!offer || !transaction) return make("p", "The answer came without a receipt.");
  const proof = make("p", `${priceOf(offer)} on ${offer.name}, transaction `);
  const where = link(transaction, offer.explorer.replace("{hash}", transaction));
  where.className = "mono";
  proof.append(where);
  return proof;
}

function buyAgain(): HTMLElement {
  const again = button("Buy it again", () => {
    keep(null);
    location.reload();
  });
  again.className = "quiet";
  return again;
}

form.addEventListener("change", offerWallets);
// Some browsers restore what was chosen before a reload as late as this.
addEventListener("pageshow", offerWallets);
const add = (wallet: Wallet): void => {
  wallets.set(wallet.id, wallet);
  offerWallets();
};
findEvmWallets(data.seconds, add);
findSolanaWallets(add);
offerWallets();
const earlier = recall();
if (earlier) void present(earlier);
