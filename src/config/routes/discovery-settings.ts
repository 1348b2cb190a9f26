/** What a configuration says of publishing, as `settings.ts` has it. */

/** What leads buyers to the priced routes; each part is served at a path of its own. */
export interface DiscoverySettings {
  /** `/discovery/resources` */
  readonly listed: boolean;
  /** `/.well-known/x402` */
  readonly wellKnown: boolean;
  /** `/openapi.json`: made of the routes, or of a description of the backend, OpenAPI 3.0 or 3.1. */
  readonly openapi:
    | "off"
    | "routes"
    | { readonly file: string; readonly description: Readonly<Record<string, unknown>> };
  /** `/llms.txt` */
  readonly llms: boolean;
  /** Canonical path of the catalogue page; null: there is none. */
  readonly page: string | null;
  /** Public address of the facilitator; null: none is named. */
  readonly facilitator: string | null;
}
