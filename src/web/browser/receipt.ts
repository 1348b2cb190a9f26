/** A receipt that can be read, looked up and printed. */
import { button, link, make } from "./element.ts";
import type { KeptInBrowser, KeptReceipt } from "./kept.ts";
import { exactPrice, type PayableOffer } from "./offer.ts";

const PLAY_MONEY = "test network, play money";

/** @param offer undefined: it was kept by an earlier page, and is sold no more */
export function receiptOf(
  { soldMs }: KeptInBrowser,
  { seller, item, url, transaction, charged, payer }: KeptReceipt,
  offer: PayableOffer | undefined,
): HTMLElement {
  const about = make("section");
  about.id = "receipt";
  const list = make("dl");
  const row = (name: string, value: string | Node): void => {
    const is = make("dd");
    is.append(value);
    list.append(make("dt", name), is);
  };
  row("Seller", seller);
  row("Item", item);
  row("URL", url);
  if (soldMs) row("Time", new Date(soldMs).toLocaleString());
  if (charged) row("Amount", `${charged} from the balance`);
  else if (offer) {
    const { price, isTest } = offer;
    row("Amount", `${price}: ${exactPrice(offer)}${isTest ? ` (${PLAY_MONEY})` : ""}`);
  }
  if (payer) row("Payer", payer);
  if (transaction)
    row(
      "Transaction",
      offer ? link(transaction, offer.explorer.replace("{hash}", transaction)) : transaction,
    );
  const printing = button("Print", () => print());
  printing.className = "quiet";
  about.append(make("h2", "Receipt"), list, printing);
  return about;
}
