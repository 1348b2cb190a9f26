/** Who is asked who he is, by what the configuration says of members and sessions. */
import { soldNetworks, type Config } from "../config/config.ts";
import type { MemberTerms } from "../gateway/membership.ts";
import type { SignInTerms } from "../gateway/signed-in.ts";
import { Sessions } from "../x402/session.ts";
import { SIGN_IN_PATH, SignIns } from "../x402/sign-in.ts";

/**
 * @param secret the ledger's, and the public URL of the site
 * @param groups who is in each
 */
export function signInTerms(
  {
    routes,
    members,
    sessions,
    sidecar,
  }: Pick<Config, "routes" | "members" | "sessions" | "sidecar">,
  secret: { readonly key: Uint8Array; readonly publicUrl: string },
  groups: Readonly<Record<string, MemberTerms["list"]>>,
): SignInTerms {
  const { forMs, notBefore } = sessions;
  const notBeforeMs = notBefore === null ? 0 : Date.parse(notBefore);
  return {
    issuer: new SignIns(secret),
    // Another proxy passes its clients' cookies on, and a session with them: there each request is signed for.
    sessions: sidecar === null ? new Sessions({ ...secret, forMs, notBeforeMs }) : null,
    url: secret.publicUrl + SIGN_IN_PATH,
    networks: soldNetworks(routes),
    areScreened: members.areScreened,
    groups: Object.entries(groups).map(([group, list]) => {
      return { group, list, offers: null, page: null };
    }),
  };
}
