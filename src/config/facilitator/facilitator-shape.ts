/** The shape of `facilitator`: who settles payments, and where that is offered to others. */
import { z } from "zod";
import { err, ok, type Result } from "../../x402/result.ts";
import { readPayee } from "../listener/addresses.ts";
import { ADDRESS, BASE_URL, NETWORK, RPC_URL } from "../reading/forms.ts";
import { auth, catalogue } from "./hub.ts";
import { listener } from "../listener/listener-shape.ts";
import { NATIVE_PRICE_FORM, readNativePrice } from "../routes/price.ts";
import type { Fault } from "../reading/problem.ts";
import {
  bad,
  literalKey,
  readBaseUrl,
  readCommitment,
  readRpcUrl,
  COMMITMENTS,
} from "../reading/reading.ts";
import { LIGHTHOUSE_RULES } from "../settings.ts";
import {
  described,
  duration,
  headerName,
  headerValue,
  HEX_NUMBER,
  listOf,
  map,
  matching,
  named,
  optional,
  plainText,
  reader,
  text,
  whole,
  word,
  type Form,
} from "../reading/shapes.ts";

const remote = map({
  url: described(text(readBaseUrl, BASE_URL), "Where the facilitator is, without /verify."),
  headers: optional(
    z.record(headerName, headerValue, "must be a map"),
    'Sent with every request; secrets belong here: { Authorization: "Bearer ${TOKEN}" }.',
  ),
  timeout: optional(duration, "Longest that an answer may take.", "10s"),
  confirm: optional(
    word(["facilitator", "receipt"]),
    "What its settlements count by: its own word, or a receipt from the chain, which is then asked " +
      "through `facilitator.rpc`.",
    "facilitator",
  ),
});

/** Bytes of half a keypair: what has fewer is no key. */
const HALF_KEY = 32;

/** Whether a list is the text of a keypair file, which is one remark then instead of 64. */
function isKeyFile(list: readonly unknown[]): boolean {
  return list.length >= HALF_KEY && list.every((each) => typeof each === "number");
}

const REFERENCE_FORM = "must be a reference to a key: env:NAME or file:PATH";
/** A key itself is refused or warned of with better words than an editor has. */
const SIGNER =
  /^(?:env:[A-Za-z_][A-Za-z0-9_]*|file:.+|(?:0x)?[0-9a-fA-F]{64}|[1-9A-HJ-NP-Za-km-z]{64,90}|\[[\s\S]*\])$/;
const SIGNER_FORM: Form = {
  anyOf: [matching(SIGNER, REFERENCE_FORM, "env:BASE_KEY", "file:/run/secrets/key"), HEX_NUMBER],
};

const signer = z.union(
  [
    z.string(REFERENCE_FORM),
    reader(z.array(z.unknown()), (list): Result<never, Fault> =>
      isKeyFile(list) ? err(literalKey("must")) : bad(REFERENCE_FORM),
    ),
  ],
  REFERENCE_FORM,
);
const signers = reader(z.array(z.unknown(), "must be a list"), (list) =>
  isKeyFile(list) ? err(literalKey("must")) : ok(list),
)
  .pipe(listOf(signer))
  .register(z.globalRegistry, { form: { type: "array", items: SIGNER_FORM } });

const MAX_FEE_REASON = ": two signatures alone cost 10000, and a whole SOL is 1000000000";
/** Half of it is for payers who have not paid as yet: that must hold one settlement. */
const LOSS_REASON = ": one failure costs 10000 or more, and a whole SOL is 1000000000";

const rpc = listOf(text(readRpcUrl, RPC_URL));

function dollars(example: string) {
  return reader(
    z.union([z.string(), z.number()], NATIVE_PRICE_FORM),
    readNativePrice,
    matching(/^\$[0-9]+(?:\.[0-9]+)?$/, NATIVE_PRICE_FORM, example),
  );
}

/** Which of it belongs to which family of networks is decided in `settlers.ts`. */
const embeddedNetwork = map({
  rpc: described(rpc, "RPC endpoints of the chain, tried in this order."),
  signers: described(
    signers,
    "References to the private keys that pay the fees: env:NAME or file:PATH. Several settle side by side.",
  ),
  confirmations: optional(
    whole(1, 1000),
    "EVM networks: blocks that hold a settlement before it counts. Without it: what suits the network.",
  ),
  commitment: optional(
    text(readCommitment, { enum: COMMITMENTS }),
    "Solana: where a transaction counts as settled; finalized takes about 13 seconds.",
    "confirmed",
  ),
  maxFeeLamports: optional(
    whole(10_000, 1_000_000_000, MAX_FEE_REASON),
    "Solana: the most that one settlement may cost us in lamports, priority fee and all.",
    100_000,
  ),
  smartWallets: optional(
    word(["allow", "deny"]),
    "EVM networks: whether buyers may pay from addresses with code (ERC-1271, EIP-7702), which runs at our cost. Without it: allow.",
  ),
  lighthouse: optional(
    word(LIGHTHOUSE_RULES),
    "Solana: whether transactions may hold the assertions that wallets such as Phantom add.",
    "assertions",
  ),
  lighthouseLossPerHour: optional(
    whole(30_000, 1_000_000_000, LOSS_REASON),
    "Solana: lamports that transactions with assertions may cost us by failing within an hour; then none are taken.",
    300_000,
  ),
  nativePrice: optional(
    dollars("$3000"),
    "Dollars for one whole unit of the network's currency: warns at the start where gas costs more than a route.",
  ),
});

const BASE_PATH = /^(?:\/[A-Za-z0-9._~-]+)*\/?$/;
const BASE_PATH_FORM = "must be a path such as /x402: letters, digits and . _ ~ - between slashes";

const embedded = map({
  networks: described(
    named(embeddedNetwork, NETWORK),
    "What this process settles itself, by network.",
  ),
  allow: optional(
    map({
      payTo: optional(
        listOf(text(readPayee, ADDRESS)),
        "Who may be paid besides the payees of our own routes.",
      ),
      assets: optional(
        listOf(plainText),
        "Tokens that others may settle besides those of our own routes: symbols or addresses.",
      ),
      minAmount: optional(
        dollars("$0.001"),
        "Dollars that others have to pay at least, since each settlement is at our cost. Without it: about its gas " +
          "where nativePrice says what that is worth, else nothing but 0 is refused.",
      ),
    }),
    "What is settled beyond our own routes, when others settle through us.",
  ),
});

const facilitatorMap = map({
  listen: optional(listener, "Serves /verify, /settle, /supported and /discovery/resources there."),
  basePath: optional(
    text(readBasePath, matching(BASE_PATH, BASE_PATH_FORM)),
    "A path before those.",
    "",
  ),
  auth: optional(auth, "Who may call that listener. Without it: whoever reaches it."),
  catalogue: optional(catalogue, "How the sales of `auth.gateways` are listed."),
  embedded: optional(embedded, "Settlement in this process, on networks whose fees it pays."),
  remote: optional(
    listOf(z.union([text(readBaseUrl, BASE_URL), remote], "must be a URL or { url, … }")),
    "Facilitators for every network that is not embedded, tried in this order.",
  ),
  foreign: optional(
    word(["hold", "deliver"]),
    "What becomes of a payment that is on chain in a transaction of neither ours nor of the facilitator that it " +
      "was handed to: hold it for `coinslot payments --resolve`, or deliver it.",
    "hold",
  ),
  rpc: optional(
    named(rpc, NETWORK),
    "RPC endpoints of networks that a remote facilitator settles: they tell what became of a payment.",
  ),
});

export const facilitator = z.union(
  [text(readBaseUrl, BASE_URL), facilitatorMap],
  "must be a URL or a map",
);

function readBasePath(path: string): Result<string, Fault> {
  const trimmed = path.replace(/\/$/, "");
  return BASE_PATH.test(trimmed) && !/\/\.\.?(?:\/|$)/.test(trimmed)
    ? ok(trimmed)
    : bad(BASE_PATH_FORM);
}
