/**
 * How backends read the name of a header line. Most hand it on as a variable, and what they make of other characters
 * than letters and digits differs: two names are one to a backend exactly when its reader says so.
 */

export interface NameReader {
  readonly name: string;
  /** The name as it is listed here: in small letters, with a dash for each `_` of the variable. */
  readonly read: (name: string) => string;
}

/** `HTTP_X_402_PAYER` is `x-402-payer`. */
const asListed = (variable: string): string => variable.toLowerCase().replaceAll("_", "-");

/** What CGI demands (RFC 3875 section 4.1.18), and no more. */
const asCgi = (name: string): string => name.toUpperCase().replaceAll("-", "_");

const NAME_READERS: readonly NameReader[] = [
  { name: "HTTP", read: (name) => name.toLowerCase() },
  { name: "WSGI and Rack", read: (name) => asListed(asCgi(name)) },
  // php_register_variable: `$_SERVER` has no dots and blanks.
  { name: "PHP", read: (name) => asListed(asCgi(name).replaceAll(/[. ]/g, "_")) },
  // http_cgi_encode_varname.
  { name: "lighttpd", read: (name) => asListed(name.replaceAll(/[^A-Za-z0-9]/g, "_")) },
];

/** Everything that a name means to somebody, and to whom. */
export function meaningsOf(name: string): ReadonlyMap<string, string> {
  const meanings = new Map<string, string>();
  for (const { name: reader, read } of NAME_READERS) {
    const meaning = read(name);
    if (!meanings.has(meaning)) meanings.set(meaning, reader);
  }
  return meanings;
}

/** The values of a name as each of them reads it: a backend takes any of them. */
export function valuesByReader(
  lines: readonly (readonly [string, string])[],
  name: string,
): readonly { readonly reader: string; readonly values: readonly string[] }[] {
  return NAME_READERS.map(({ name: reader, read }) => {
    const values = lines.filter(([each]) => read(each) === name).map(([, value]) => value);
    return { reader, values };
  });
}

/** Names that never reach a backend from a client, in any spelling. */
const NEVER = new Set(
  // Of one connection, of the payment, and of the gateway.
  (
    "keep-alive te trailer expect http2-settings x-payment payment-signature x-payment-response payment-response " +
    "payment-required extension-responses x-payer " +
    // Another client.
    "forwarded x-real-ip client-ip x-client-ip x-cluster-client-ip true-client-ip cf-connecting-ip cf-ipcountry " +
    "fastly-client-ip fly-client-ip do-connecting-ip x-nf-client-connection-ip x-azure-clientip x-appengine-user-ip " +
    "wl-proxy-client-ip x-vercel-forwarded-for cloudfront-viewer-address x-envoy-external-address x-forwarded " +
    "forwarded-for x-scheme x-url-scheme front-end-https " +
    // Another host, path or method.
    "x-original-url x-original-uri x-original-host x-original-method x-original-path x-rewrite-url x-rewrite-uri " +
    "x-request-uri x-script-name x-host x-http-host-override x-http-method x-http-method-override " +
    "x-http-verb-override x-http-path-override x-method-override x-envoy-original-path x-matched-path x-invoke-path " +
    "x-middleware-subrequest x-middleware-rewrite " +
    // Another user.
    "remote-user remote-groups x-remote-user x-remote-group x-auth-request-user x-webauth-user x-authenticated-user " +
    "x-consumer-username x-amzn-oidc-identity x-ms-client-principal x-goog-authenticated-user-email client-cert " +
    "ssl-client-verify ssl-client-cert ssl-client-s-dn x-ssl-client-verify x-ssl-client-cn x-client-cert " +
    "x-arr-clientcert ms-aspnetcore-clientcert tailscale-user-login " +
    // Other ways to work.
    "proxy x-sendfile-type x-accel-mapping"
  ).split(" "),
);

/** Whether somebody reads that name as a payment of either version. */
export function isPayment(name: string): boolean {
  const meanings = meaningsOf(name);
  return meanings.has("x-payment") || meanings.has("payment-signature");
}

/** `X-Forwarded-` that the gateway writes itself. */
const TOLD = new Set(["x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"]);

/** Whether a name, as one of them reads it, has no business at a backend. */
export function isNever(meaning: string): boolean {
  if (meaning.startsWith("x-forwarded-")) return !TOLD.has(meaning);
  return NEVER.has(meaning) || /^(?:proxy|x-402)-/.test(meaning);
}
