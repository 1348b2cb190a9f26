/**
 * The shape of the document, as one schema: which keys there are and what stands under each. Values are
 * read here one by one; what they mean together is decided by `resolve.ts` and its neighbours. All
 * messages complete a sentence about the value that they point at.
 */
import { z } from "zod";
import { readAddress, readEvmAddress, readPayee, readSolanaPayee } from "./addresses.ts";
import {
  bad,
  literalKey,
  notYet,
  LISTEN_ADDRESS_FORM,
  readAmount,
  readBaseUrl,
  readBrowserOrigin,
  readCommitment,
  readListenAddress,
  readNetwork,
  readOrigin,
  readRpcUrl,
  readWord,
} from "./reading.ts";
import type { Fault } from "./problem.ts";
import {
  NATIVE_PRICE_FORM,
  readAction,
  readBarePrice,
  readNativePrice,
  readPrice,
} from "./price.ts";
import { err, ok, type Result } from "../x402/result.ts";
import { limits, trustedProxies } from "./limits.ts";
import { LIGHTHOUSE_RULES, LOG_LEVELS } from "./settings.ts";
import {
  duration,
  flag,
  headerName,
  headerValue,
  jsonObject,
  laterWhenTrue,
  listOf,
  map,
  named,
  plainText,
  reader,
  text,
  whole,
} from "./shapes.ts";
import { readStore } from "./store.ts";
import { upstream } from "./upstream-shape.ts";
import { workers } from "./workers.ts";

const address = text(readListenAddress, LISTEN_ADDRESS_FORM);
const port = reader(z.number(), (number) => readListenAddress(`:${number}`));
const LISTENER_FORM = "must be host:port, :port or a port number";

const filePath = plainText.min(1, "must be the path of a file in PEM");
const listener = z.union(
  [address, port, map({ address, tls: map({ cert: filePath, key: filePath }).exactOptional() })],
  LISTENER_FORM,
);

/** Who is paid, by the family of networks; one address alone is for its own family. */
const payees = z.union(
  [
    reader(z.string(), (text): Result<{ evm?: string; solana?: string }, Fault> => {
      const payee = readPayee(text);
      return payee.ok ? ok({ [payee.value.kind]: payee.value.text }) : payee;
    }),
    map({
      evm: text(readEvmAddress).exactOptional(),
      solana: text(readSolanaPayee).exactOptional(),
    }),
  ],
  "must be an address or { evm: 0x…, solana: … }",
);

const acceptEntry = z.union(
  [
    text(readNetwork),
    map({
      network: text(readNetwork),
      asset: plainText.exactOptional(),
      amount: text(readAmount).exactOptional(),
    }),
  ],
  "must be a network or { network, asset, amount }",
);

/** Which of it belongs to which family of networks is decided in `accepted.ts`. */
const token = map({
  address: text(readAddress),
  decimals: whole(0, 36),
  eip712: map({ name: plainText.min(1, "must not be empty"), version: plainText }).exactOptional(),
});

const bearer = text((value) =>
  /^[\x21-\x7e]+$/.test(value) ? ok(value) : bad("must be printable ASCII without spaces"),
);

const remote = map({
  url: text(readBaseUrl),
  headers: z.record(headerName, headerValue, "must be a map").exactOptional(),
  timeout: duration.exactOptional(),
  confirm: text(readWord(["facilitator", "receipt"])).exactOptional(),
});

/** Bytes of half a keypair: what has fewer is no key. */
const HALF_KEY = 32;

/** Whether a list is the text of a keypair file, which is one remark then instead of 64. */
function isKeyFile(list: readonly unknown[]): boolean {
  return list.length >= HALF_KEY && list.every((each) => typeof each === "number");
}

const REFERENCE_FORM = "must be a reference to a key: env:NAME or file:PATH";
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
).pipe(listOf(signer));

const MAX_FEE_REASON = ": two signatures alone cost 10000, and a whole SOL is 1000000000";

/** Which of it belongs to which family of networks is decided in `settlers.ts`. */
const embeddedNetwork = map({
  rpc: listOf(text(readRpcUrl)),
  signers,
  confirmations: whole(1, 1000).exactOptional(),
  commitment: text(readCommitment).exactOptional(),
  maxFeeLamports: whole(10_000, 1_000_000_000, MAX_FEE_REASON).exactOptional(),
  lighthouse: text(readWord(LIGHTHOUSE_RULES)).exactOptional(),
  nativePrice: reader(
    z.union([z.string(), z.number()], NATIVE_PRICE_FORM),
    readNativePrice,
  ).exactOptional(),
});

const facilitator = map({
  listen: listener.exactOptional(),
  basePath: text(readBasePath).exactOptional(),
  auth: map({ bearer }).exactOptional(),
  embedded: map({
    networks: named(embeddedNetwork),
    allow: map({
      payTo: listOf(text(readPayee)).exactOptional(),
      assets: listOf(plainText).exactOptional(),
    }).exactOptional(),
  }).exactOptional(),
  remote: listOf(
    z.union([text(readBaseUrl), remote], "must be a URL or { url, … }"),
  ).exactOptional(),
  rpc: named(listOf(text(readRpcUrl))).exactOptional(),
});

const MAX_TIMEOUT_REASON =
  ": a facilitator refuses authorizations that expire within 6 seconds, and nothing waits for a day";

const priceBlock = map({
  price: z
    .union(
      [
        text(readPrice),
        reader(z.number(), readBarePrice),
        map({ amount: text(readAmount), asset: plainText.exactOptional() }),
      ],
      "must be a price such as $0.01",
    )
    .exactOptional(),
  accept: listOf(acceptEntry).exactOptional(),
  payTo: payees.exactOptional(),
  upstream: plainText.exactOptional(),
  description: plainText.exactOptional(),
  mimeType: text(readMimeType).exactOptional(),
  maxTimeoutSeconds: whole(10, 86_400, MAX_TIMEOUT_REASON).exactOptional(),
  outputSchema: jsonObject.exactOptional(),
  metadata: jsonObject.exactOptional(),
  input: map({
    queryParams: jsonObject.exactOptional(),
    bodyType: text(
      readWord(["json", "form-data", "multipart-form-data", "text", "binary"]),
    ).exactOptional(),
    bodyFields: jsonObject.exactOptional(),
    headerFields: jsonObject.exactOptional(),
  }).exactOptional(),
  discoverable: flag.exactOptional(),
  settle: text(readSettle).exactOptional(),
});

const route = z.union(
  [text(readAction), reader(z.number(), readBarePrice), priceBlock],
  "must be free, deny, a price such as $0.01, or a map with a price",
);

/** The whole file. */
export const documentSchema = map({
  listen: z
    .union([listener, listOf(listener)], "must be an address or a list of addresses")
    .exactOptional(),
  publicUrl: text(readBaseUrl).exactOptional(),
  trustedProxies: trustedProxies.exactOptional(),
  limits: limits.exactOptional(),
  shutdown: z
    .union(
      [duration, map({ within: duration.exactOptional(), delay: duration.exactOptional() })],
      "must be a duration such as 500ms, 30s, 10m or 1h, or a map of within and delay",
    )
    .exactOptional(),
  workers: workers.exactOptional(),
  admin: address.exactOptional(),
  upstream: text(readOrigin).exactOptional(),
  upstreams: named(upstream).exactOptional(),
  payTo: payees.exactOptional(),
  accept: listOf(acceptEntry).exactOptional(),
  assets: named(named(token)).exactOptional(),
  facilitator: z.union([text(readBaseUrl), facilitator], "must be a URL or a map").exactOptional(),
  routes: named(route).exactOptional(),
  unmatched: text(readWord(["deny", "free"])).exactOptional(),
  discovery: map({
    listed: flag.exactOptional(),
    wellKnown: laterWhenTrue.exactOptional(),
    openapi: laterWhenTrue.exactOptional(),
  }).exactOptional(),
  store: text(readStore).exactOptional(),
  logging: map({
    level: text(readWord(LOG_LEVELS)).exactOptional(),
    format: text(readWord(["json", "pretty"])).exactOptional(),
  }).exactOptional(),
  cors: z
    .union(
      [flag, map({ origins: listOf(text(readBrowserOrigin)) })],
      "must be true, false or { origins }",
    )
    .exactOptional(),
});

/** The document with every single value read, and nothing resolved. */
export type ConfigDocument = z.output<typeof documentSchema>;
export type PriceBlock = z.output<typeof priceBlock>;
export type AcceptEntry = z.output<typeof acceptEntry>;
export type Payees = z.output<typeof payees>;
export type Action = z.output<typeof route>;

function readBasePath(path: string): Result<string, Fault> {
  const trimmed = path.replace(/\/$/, "");
  return /^(?:\/[A-Za-z0-9._~-]+)*$/.test(trimmed) && !/\/\.\.?(?:\/|$)/.test(trimmed)
    ? ok(trimmed)
    : bad("must be a path such as /x402: letters, digits and . _ ~ - between slashes");
}

function readMimeType(type: string): Result<string, Fault> {
  return /^[\w.+-]+\/[\w.+*-]+(?: *;[\x20-\x7e]*)?$/.test(type)
    ? ok(type)
    : bad("must be a media type such as application/json");
}

function readSettle(when: string): Result<"before", Fault> {
  if (when === "before") return ok(when);
  return notYet("settling at another time than `before`");
}
