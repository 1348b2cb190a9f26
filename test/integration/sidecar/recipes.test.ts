/** What the recipes of `deploy/sidecar/` say, also those of proxies that cannot be installed here. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import { BELIEVED_NAMES } from "../../../src/http/header-names.ts";
import { describe, expect, it } from "vitest";

/** Names that some backends read as others. */
const ODD_NAMES = Array.from("!#$%&'*+.^_`|~", (odd) => `X${odd}402${odd}Payer`);

function recipe(name: string): string {
  return readFileSync(join(import.meta.dirname, "../../../deploy/sidecar", name), "utf8");
}

describe("the recipes", () => {
  const whole = BELIEVED_NAMES.filter((name) => !name.endsWith("*"));
  // Proxies that know no beginnings take these away, or write them anew.
  const written = new Set(["x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"]);

  it.each([
    ["nginx.conf", /^ *proxy_set_header +(\S+)/gm, ""],
    ["traefik.yaml", /^ *([\w-]+): ""/gm, ""],
    ["envoy.yaml", /^ *- ([\w-]+)$/gm, ""],
    ["haproxy.cfg", /^ *http-request del-header (\S+(?: -m beg)?)$/gm, " -m beg"],
    ["Caddyfile", /^\s*header_up -(\S+)$/gm, "*"],
  ])("%s takes away every name that some program believes", (file, entry, beginning) => {
    const taken = [...recipe(file).matchAll(entry)].map(([, name = ""]) => name.toLowerCase());
    const beginnings = taken.filter((name) => beginning !== "" && name.endsWith(beginning));
    const starts = beginnings.map((name) => name.slice(0, -beginning.length));
    const isTaken = (name: string): boolean =>
      taken.includes(name) || starts.some((start) => name.startsWith(start));
    const wanted = beginning === "" ? whole : BELIEVED_NAMES.map((name) => name.replace("*", ""));
    const missing = wanted.filter((name) => !isTaken(name) && !written.has(name));
    // Caddy writes some of these itself, and takes away after it has written.
    expect(missing.filter((name) => file !== "Caddyfile" || name !== "x-forwarded-")).toEqual([]);
  });

  it.each([
    ["nginx.conf", /proxy_set_header SIGN-IN-WITH-X +"";/],
    ["haproxy.cfg", /del-header sign-in-with-x$/m],
    ["Caddyfile", /header_up -Sign-In-With-X$/m],
    ["envoy.yaml", /request_headers_to_remove:[^:]*- sign-in-with-x$/m],
    ["traefik.yaml", /SIGN-IN-WITH-X: ""$/m],
  ])("%s keeps a sign-in from the backend", (file, line) => {
    expect(recipe(file)).toMatch(line);
  });

  it("take away or show to coinslot what has other characters in its name", () => {
    for (const odd of "!#$%&'*+.^_`|~") {
      expect(recipe("Caddyfile")).toContain(`request_header -*${odd}*\n`);
    }
    expect(recipe("nginx.conf")).toMatch(
      /ignore_invalid_headers on;\s+underscores_in_headers off;/,
    );
    expect(recipe("haproxy.cfg")).toContain("option http-restrict-req-hdr-names reject");
    const [, shown = ""] = /safe_regex: \{ regex: "(.*)" \}/.exec(recipe("envoy.yaml")) ?? [];
    for (const name of ODD_NAMES) {
      expect(new RegExp(`^(?:${shown})$`).test(name.toLowerCase())).toBe(true);
    }
    expect(recipe("traefik.yaml")).not.toMatch(/^ *authRequestHeaders:/m);
  });
});

describe("the recipes that cannot be run here", () => {
  it("envoy.yaml asks as is tested above, passes nothing on without an answer, and repairs no path", () => {
    const { static_resources: resources } = Object(parse(recipe("envoy.yaml")));
    const manager = resources.listeners[0].filter_chains[0].filters[0].typed_config;
    const filters: { readonly name: string; readonly typed_config: object }[] =
      manager.http_filters;
    const names = filters.map(({ name }) => name.replace("envoy.filters.http.", ""));
    const authorization = Object(filters[1]?.typed_config);
    const { http_service: service } = authorization;
    const shown = service.authorization_request.allowed_headers.patterns;

    expect(names).toEqual(["header_mutation", "ext_authz", "router"]);
    expect(authorization.failure_mode_allow).toBe(false);
    expect(service.path_prefix).toBe("/check");
    expect(shown).toEqual(
      expect.arrayContaining([
        { exact: "x-payment" },
        { exact: "payment-signature" },
        { exact: "x-forwarded-for" },
      ]),
    );
    expect(manager).toMatchObject({
      normalize_path: false,
      merge_slashes: false,
      path_with_escaped_slashes_action: "KEEP_UNCHANGED",
      use_remote_address: true,
    });
  });

  it("traefik.yaml asks as is tested above, before the backend's own middleware", () => {
    const { http } = Object(parse(recipe("traefik.yaml")));

    expect(http.routers.shop).toMatchObject({ middlewares: ["coinslot", "coinslot-clean"] });
    expect(http.middlewares.coinslot.forwardAuth).toMatchObject({
      address: "http://127.0.0.1:8403/check",
      trustForwardHeader: false,
      authResponseHeaders: expect.arrayContaining(["X-402-Payer", "X-402-Network"]),
    });
    expect(http.middlewares["coinslot-answer"].addPrefix).toEqual({ prefix: "/answer" });
  });
});
