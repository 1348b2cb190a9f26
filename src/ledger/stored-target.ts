/**
 * What the ledger keeps of a target: its path, and of its query a digest. Whether two requests ask for the same is all
 * that is ever asked of it, and what buyers write into a query (a name, a place, a question) is not for keeping. Only
 * where a redirect has led is kept as it was, since its buyer may be led there again.
 */
import { hash } from "node:crypto";

/** Characters of base64url of the SHA-256 of a query: 132 bits. */
const DIGEST_LENGTH = 22;
const DIGESTED = /\?~[\w-]{22}$/;

/** Of a target as it is asked for. */
export function digestedTarget(target: string): string {
  const [path = "", ...query] = target.split("?");
  if (query.length === 0) return target;
  return `${path}?~${hash("sha256", query.join("?"), "base64url").slice(0, DIGEST_LENGTH)}`;
}

/** Of one that is stored: older programs have stored them whole. */
export function storedTarget(target: string | null): string | null {
  return target === null || DIGESTED.test(target) ? target : digestedTarget(target);
}

/** How it may be stored: for statements, which read columns as they are. */
export function storedForms(target: string): readonly [digested: string, whole: string] {
  return [digestedTarget(target), target];
}
