/**
 * The script of the paywall page: finds wallets, has a payment signed, sends it with the same request that the
 * browser made, and shows what came. Everything that the shop, the wallet or the backend says becomes text.
 */
import { showAnswer } from "./bought.ts";
import { button, byId, link, make } from "./element.ts";
import { findEvmWallets } from "./evm.ts";
import { keep, recall, type Kept } from "./kept.ts";
import { amountText, NotPaid, type Offer, type PageData } from "./offer.ts";
import { findSolanaWallets } from "./solana.ts";
import type { Wallet } from "./wallet.ts";

interface Receipt {
  readonly success?: boolean;
  readonly transaction?: string;
}

const UNCHARGED = "Nothing was charged.";
const UNKNOWN =
  "It is not known yet whether the payment went through. Do not pay again: send the same payment once more.";
const DECLINED = /4001|reject|declin|denied|cancel/i;
/** Refusals of a payment that was taken before. */
const WAS_TAKEN = /used|no delivery/;
const WHAT_CODES_MEAN: readonly (readonly [code: string, sentence: string])[] = [
  ["insufficient_funds", "The account holds too little."],
  ["valid_before", "The signed payment has expired."],
];
const ACCEPT = "text/html,application/xhtml+xml,image/*;q=.9,*/*;q=.8";

const main = byId("main");
const form = byId("form") as HTMLFieldSetElement;
const places = byId("wallets");
const status = byId("status");
const retry = byId("retry");
const bought = byId("bought");
const { seconds, offers }: PageData = JSON.parse(byId("offers").textContent);
const wallets = new Map<unknown, Wallet>();
let chosen = 0;

function say(text: string, isBad = false): void {
  status.textContent = text;
  status.className = isBad ? "bad" : "";
  if (isBad) status.focus();
}

function priceOf(offer: Offer): string {
  return amountText(BigInt(offer.amount), offer);
}

/** One button for each wallet that can pay the chosen offer. */
function offerWallets(): void {
  const offer = offers[chosen];
  if (!offer) return;
  const able = [...wallets.values()].filter((wallet) => wallet.canPay(offer));
  places.replaceChildren(
    ...(able.length > 0
      ? able.map((wallet) =>
          button(`Pay ${priceOf(offer)} with ${wallet.name}`, () => void pay(wallet, offer)),
        )
      : [make("p", `No wallet for ${offer.name} was found in this browser.`)]),
  );
}

async function pay(wallet: Wallet, offer: Offer): Promise<void> {
  form.disabled = true;
  const { network } = offer;
  let header: string;
  try {
    const payload = await wallet.sign(offer, say);
    header = btoa(JSON.stringify({ x402Version: 1, scheme: "exact", network, payload }));
  } catch (cause) {
    const { code, message } = Object(cause);
    const isDeclined = !(cause instanceof NotPaid) && DECLINED.test(`${code} ${message}`);
    const said = isDeclined ? "You declined in your wallet." : String(message ?? cause);
    refuse(`${said} ${UNCHARGED}`);
    return;
  }
  await present({ header, offer: chosen, soldMs: 0 });
}

/** Back to where a payment can be signed. */
function refuse(text: string): void {
  keep(null);
  form.disabled = form.hidden = false;
  say(text, true);
}

/** Nothing can be signed until it is known what became of this payment. */
function holdOn(kept: Kept, text: string): void {
  retry.replaceChildren(button("Try again with the same payment", () => void present(kept)));
  say(text, true);
}

async function present(kept: Kept): Promise<void> {
  keep(kept);
  form.hidden = true;
  retry.replaceChildren();
  say(kept.soldMs ? "You have paid: asking for it again." : "Paying. This can take a few seconds.");
  const headers = { Accept: ACCEPT, "X-PAYMENT": kept.header };
  try {
    const response = await fetch(location.href, { headers, cache: "no-store" });
    const receipt = readReceipt(response);
    if (response.ok) await deliver(kept, response, receipt);
    else await explain(kept, response, receipt);
  } catch {
    holdOn(kept, `The connection was lost. ${UNKNOWN}`);
  }
}

function readReceipt({ headers }: Response): Receipt | null {
  const text = headers.get("X-PAYMENT-RESPONSE");
  return text === null ? null : JSON.parse(atob(text));
}

/** Every answer but the one that was paid for. */
async function explain(kept: Kept, response: Response, receipt: Receipt | null): Promise<void> {
  const { status: code } = response;
  const body = await response.json().catch(() => null);
  const error = String(body?.error ?? "");
  if (receipt?.success) {
    const said = `You have paid, but the seller's server answered with an error (${code}).`;
    holdOn(kept, `${said} Try again: nothing is charged twice.`);
  } else if (code === 402 || code === 400) {
    const known = WHAT_CODES_MEAN.find(([name]) => error.includes(name))?.[1];
    const charged = WAS_TAKEN.test(error) ? "Nothing more was charged." : UNCHARGED;
    refuse(`${known ?? `The payment was not accepted: ${error}.`} ${charged}`);
  } else if (error.includes("unexpected_settle_error")) {
    holdOn(kept, UNKNOWN);
  } else holdOn(kept, `Not yet: ${error || code}. Send the same payment again a little later.`);
}

async function deliver(kept: Kept, response: Response, receipt: Receipt | null): Promise<void> {
  const shown = await showAnswer(response);
  keep({ ...kept, soldMs: kept.soldMs || Date.now() });
  const offer = offers[kept.offer];
  const title = make("h1", "Paid: here it is");
  title.tabIndex = -1;
  const proof = make("p", "The answer came without a receipt.");
  const { transaction } = receipt ?? {};
  if (offer && transaction) {
    proof.textContent = `${priceOf(offer)} on ${offer.name}, transaction `;
    proof.append(link(transaction, offer.explorer.replace("{hash}", transaction)));
  }
  const again = button("Buy it again", () => {
    keep(null);
    location.reload();
  });
  again.className = "quiet";
  main.hidden = true;
  bought.hidden = false;
  bought.classList.toggle("wide", shown[0] instanceof HTMLIFrameElement);
  bought.replaceChildren(title, proof, ...shown, again);
  title.focus();
}

for (const [index, each] of document.querySelectorAll("input").entries()) {
  each.addEventListener("change", () => {
    chosen = index;
    offerWallets();
  });
  // Browsers restore what was chosen before a reload.
  if (each.checked) chosen = index;
}
const add = (wallet: Wallet): void => {
  wallets.set(wallet.id, wallet);
  offerWallets();
};
findEvmWallets(seconds, add);
findSolanaWallets(add);
offerWallets();
const earlier = recall();
if (earlier) void present(earlier);
