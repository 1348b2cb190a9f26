/** For who has no wallet here: the page on a phone, in the browsers of large wallets, and what to pay with. */
import { link, make } from "./element.ts";
import { isEvm, type PayableOffer } from "./offer.ts";
import { qrCode } from "./qr-code.ts";

/** What is left blank around a code, squares. */
const BORDER = 4;
const SVG = "http://www.w3.org/2000/svg";
/** Gives away what Circle issues on test networks. */
const FAUCET = "https://faucet.circle.com";

/** What helps to pay this offer; `isPoor`: there is a wallet, and too little in it. */
export function otherWays(offer: PayableOffer, isPoor = false): HTMLElement[] {
  return isPoor ? [funding(offer)] : [...drawn(), openings(offer), funding(offer)];
}

let figure: HTMLElement | undefined;

/** The URL for the camera of a phone; nothing where it is too long for that. */
function drawn(): HTMLElement[] {
  const code = qrCode(location.href);
  if (!code) return [];
  figure ??= draw(code);
  return [make("p", "Scan this with a phone that has a wallet, and open the link there."), figure];
}

function draw(code: readonly boolean[][]): HTMLElement {
  const image = document.createElementNS(SVG, "svg");
  const size = code.length + 2 * BORDER;
  image.setAttribute("viewBox", `${-BORDER} ${-BORDER} ${size} ${size}`);
  image.setAttribute("role", "img");
  image.setAttribute("aria-label", "QR code of this page");
  const path = document.createElementNS(SVG, "path");
  const squares = code.flatMap((row, y) =>
    row.map((isDark, x) => (isDark ? `M${x} ${y}h1v1h-1z` : "")),
  );
  path.setAttribute("d", squares.join(""));
  image.append(path);
  const drawing = make("p");
  drawing.append(image);
  return drawing;
}

/**
 * Links that open this page in a wallet of the phone, as the wallets document them:
 * docs.metamask.io/metamask-connect/evm/guides/metamask-exclusive/use-deeplinks (the URL as it is, without its scheme),
 * docs.phantom.com/phantom-deeplinks/other-methods/browse, and of Coinbase Wallet `go.cb-w.com/dapp?cb_url=`.
 */
function openings(offer: PayableOffer): HTMLElement {
  const { href, origin, host } = location;
  const url = encodeURIComponent(href);
  const evm = [
    ["MetaMask", `https://link.metamask.io/dapp/${host}${href.slice(origin.length)}`],
    ["Coinbase Wallet", `https://go.cb-w.com/dapp?cb_url=${url}`],
  ] as const;
  const solana = [
    ["Phantom", `https://phantom.app/ul/browse/${url}?ref=${encodeURIComponent(origin)}`],
  ] as const;
  const line = make("p", "On a phone, open this page in ");
  for (const [index, [name, to]] of (isEvm(offer) ? evm : solana).entries()) {
    line.append(index > 0 ? " or " : "", link(name, to));
  }
  line.append(".");
  return line;
}

function funding({ isTest, isGiven, symbol, name }: PayableOffer): HTMLElement {
  if (!isTest) {
    return make("p", `${symbol} is sold by exchanges and in wallets. Have it sent on ${name}.`);
  }
  const line = make("p", `${name} is a test network: its ${symbol} is worth nothing`);
  if (isGiven) line.append(", and ", link("given away", FAUCET), ".");
  else line.append(". Ask the seller for some.");
  return line;
}
