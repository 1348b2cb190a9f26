/**
 * Names of header fields that no client may write for a backend. Programs behind a gateway believe a field of these
 * names because only a proxy is supposed to write it: who the client is, which host, path or method was asked for,
 * who has logged in, what the proxy has checked. A name is here because a program is known to read it.
 */

/**
 * What reads it, and where that is written; then the names, lower-case. One that ends in `*` stands for all that begin
 * so; the best known of those are written out as well, for proxies whose rules know whole names only.
 */
const BELIEVED: readonly (readonly [reader: string, names: string])[] = [
  // Who the client is, and how it reached us.
  ["RFC 7239", "forwarded"],
  [
    "MDN, X-Forwarded-For and its neighbours",
    "x-forwarded-* x-forwarded-port x-forwarded-prefix x-forwarded-uri x-forwarded-method x-forwarded-server " +
      "x-forwarded-scheme x-forwarded-path x-forwarded-ssl x-forwarded-protocol x-forwarded-by x-forwarded-user " +
      "x-forwarded-email x-forwarded-groups x-forwarded-script-name x-forwarded-client-cert front-end-https x-url-scheme",
  ],
  ["nginx, ngx_http_realip_module", "x-real-ip"],
  ["Rails, ActionDispatch::RemoteIp", "client-ip"],
  [
    "get-client-ip and request-ip (npm)",
    "x-client-ip x-cluster-client-ip forwarded-for x-forwarded",
  ],
  ["mod_wsgi, WSGITrustedProxyHeaders", "x-host x-https x-scheme x-script-name"],
  ["Cloudflare, HTTP headers", "cf-connecting-ip cf-connecting-ipv6 cf-pseudo-ipv4 cf-ipcountry"],
  ["Cloudflare Access, Application token", "cf-access-authenticated-user-email"],
  ["Akamai and Cloudflare, True-Client-IP", "true-client-ip"],
  ["Fastly, HTTP headers", "fastly-client-ip fastly-client fastly-ff fastly-ssl"],
  ["Fly.io, Request headers", "fly-client-ip fly-forwarded-* fly-forwarded-port"],
  ["DigitalOcean App Platform", "do-connecting-ip"],
  ["Netlify, X-Nf-Client-Connection-Ip", "x-nf-client-connection-ip"],
  ["Azure Front Door, HTTP headers", "x-azure-* x-azure-clientip x-azure-socketip x-azure-fdid"],
  [
    "Google App Engine, Request headers",
    "x-appengine-* x-appengine-user-ip x-appengine-cron x-appengine-queuename x-appengine-inbound-appid",
  ],
  [
    "Amazon CloudFront, Request headers",
    "cloudfront-* cloudfront-viewer-address cloudfront-viewer-country cloudfront-forwarded-proto",
  ],
  ["Vercel, Request headers", "x-vercel-* x-vercel-forwarded-for x-vercel-ip-country"],
  ["Oracle WebLogic, Proxy plug-ins", "wl-proxy-* wl-proxy-client-ip wl-proxy-ssl"],
  ["Envoy, HTTP header manipulation", "x-envoy-* x-envoy-external-address x-envoy-internal"],
  // Which host, path or method was asked for.
  ["Envoy, Router", "x-envoy-original-path x-envoy-original-method x-envoy-original-host"],
  [
    "IIS URL Rewrite, Symfony, ASP.NET Core, ingress-nginx",
    "x-original-* x-original-url x-original-uri x-original-method x-original-host x-original-path x-original-for " +
      "x-original-proto x-original-forwarded-for x-rewrite-* x-rewrite-url x-rewrite-uri",
  ],
  [
    "method-override (npm), Symfony, Django REST framework, OData",
    "x-http-* x-http-method x-http-method-override x-http-verb-override x-http-path-override x-method-override",
  ],
  [
    "Ostorlab and PortSwigger, HTTP Host header attacks",
    "x-http-host-override x-real-host x-request-uri x-request-url",
  ],
  ["WSGIProxy, WSGIProxyMiddleware", "x-traversal-* x-traversal-path x-wsgiproxy-*"],
  [
    "Next.js, filterInternalHeaders",
    "x-middleware-subrequest x-middleware-subrequest-id x-middleware-rewrite x-middleware-redirect " +
      "x-middleware-set-cookie x-middleware-skip x-middleware-override-headers x-middleware-next " +
      "x-middleware-invoke x-now-route-matches x-matched-path x-invoke-* x-invoke-path x-invoke-query " +
      "x-invoke-status x-invoke-output x-invoke-error",
  ],
  // Who has logged in, and what a proxy has checked.
  [
    "Kubernetes, Authenticating proxy; dex",
    "x-remote-* x-remote-user x-remote-group x-remote-ip x-remote-addr",
  ],
  ["CGI (RFC 3875); Authelia", "remote-user remote-groups remote-name remote-email remote-addr"],
  [
    "oauth2-proxy, Integration",
    "x-auth-request-* x-auth-request-user x-auth-request-email x-auth-request-groups " +
      "x-auth-request-preferred-username x-auth-request-access-token",
  ],
  ["3proxy and Kong", "x-authenticated-* x-authenticated-user x-authenticated-userid"],
  [
    "Kong, Authentication; Apache APISIX",
    "x-consumer-* x-consumer-id x-consumer-username x-consumer-custom-id x-consumer-groups " +
      "x-credential-* x-credential-identifier x-anonymous-consumer",
  ],
  ["Grafana, Auth proxy; Cloudera", "x-webauth-* x-webauth-user"],
  ["authentik, Proxy provider", "x-authentik-* x-authentik-username x-authentik-groups"],
  ["Pomerium, Pass identity headers", "x-pomerium-claim-* x-pomerium-claim-email"],
  ["Tailscale Serve, Identity headers", "tailscale-* tailscale-user-login tailscale-user-name"],
  ["AWS load balancers, Authenticate users", "x-amzn-oidc-* x-amzn-oidc-identity x-amzn-mtls-*"],
  [
    "Google Identity-Aware Proxy, Signed headers",
    "x-goog-authenticated-* x-goog-authenticated-user-email x-goog-authenticated-user-id",
  ],
  [
    "Azure App Service, User identities",
    "x-ms-client-principal x-ms-client-principal-* x-ms-client-principal-id x-ms-client-principal-name " +
      "x-ms-client-principal-idp x-arr-* x-arr-clientcert x-arr-ssl",
  ],
  ["ASP.NET Core Module", "ms-aspnetcore-* ms-aspnetcore-token ms-aspnetcore-clientcert"],
  ["RFC 9440", "client-cert client-cert-chain"],
  [
    "ingress-nginx, Client certificates; Apache mod_ssl, SSLOptions",
    "ssl-* ssl-client-verify ssl-client-cert ssl-client-subject-dn ssl-client-issuer-dn ssl-client-s-dn",
  ],
  [
    "HAProxy and Kong, Client certificates",
    "x-ssl* x-ssl x-ssl-client-verify x-ssl-client-cert x-ssl-client-dn x-ssl-client-cn x-client-cert* " +
      "x-client-cert x-client-verify x-client-dn",
  ],
  // What tells a program how to work.
  ["httpoxy.org: HTTP_PROXY of CGI programs", "proxy"],
  ["Rack::Sendfile (CVE-2025-61780), Symfony", "x-sendfile-type x-accel-* x-accel-mapping"],
  // Near enough to X-402-Payer that a backend may have been written for it.
  ["a backend behind a payment gateway", "x-payer"],
];

const readers = new Map<string, string>();
for (const [reader, names] of BELIEVED) {
  for (const name of names.split(" ")) readers.set(name, reader);
}
const prefixes = [...readers.keys()].flatMap((name) =>
  name.endsWith("*") ? [name.slice(0, -1)] : [],
);
const beginning = new RegExp(`^(?:${prefixes.join("|")})`);

/** Who would believe a field of this lower-case name of whoever writes it; undefined: nobody that is known. */
export function believerOf(name: string): string | undefined {
  const [prefix] = beginning.exec(name) ?? [];
  return readers.get(name) ?? (prefix === undefined ? undefined : readers.get(`${prefix}*`));
}

/** Lower-case names, and beginnings with `*`, of all that {@link believerOf} knows. */
export const BELIEVED_NAMES: readonly string[] = [...readers.keys()];

/**
 * Names that everybody reads alike. PHP takes `.` for `_`, CGI of lighttpd any other character, and all of them `_` for
 * `-`: of any other name nobody can say which one a backend has.
 */
export function isPlainName(lowerCaseName: string): boolean {
  return /^[a-z0-9-]+$/.test(lowerCaseName);
}

/** What a request cannot do without, whatever a backend reads: its body, its conditions, its handshake. */
export const NEEDED_NAMES: ReadonlySet<string> = new Set([
  "accept",
  "accept-encoding",
  "accept-language",
  "access-control-request-headers",
  "access-control-request-method",
  "cache-control",
  "content-encoding",
  "content-language",
  "content-length",
  "content-range",
  "content-type",
  "if-match",
  "if-modified-since",
  "if-none-match",
  "if-range",
  "if-unmodified-since",
  "origin",
  "range",
  "sec-websocket-extensions",
  "sec-websocket-key",
  "sec-websocket-protocol",
  "sec-websocket-version",
]);
