/** What an account has prepaid at a seller, as the seller tells it to whoever signs in. */
import { parseUint256 } from "../x402/amount.ts";
import { BALANCE_PATH } from "../x402/prepaid.ts";
import { err, ok, type Result } from "../x402/result.ts";
import { SIGN_IN_HEADER } from "../x402/sign-in.ts";
import { ask, refusalOf, signIn, type AskedToProve } from "./sign-in.ts";

/** Most balances of one account that are told. */
const MAX_BALANCES = 64;

export interface PrepaidBalance {
  /** Without their sign. */
  readonly dollars: string;
  readonly token: string;
  readonly family: string;
}

export interface ToldBalance {
  readonly balances: readonly PrepaidBalance[];
  /** Where more is bought, in the seller's words; null: it does not say. */
  readonly buy: string | null;
}

/**
 * Signs in and asks; or a sentence on why nothing is told, which may be the seller's.
 * @throws {NoAnswer}
 */
export async function askBalance(signing: AskedToProve): Promise<Result<ToldBalance, string>> {
  const { host } = signing.url;
  const signed = await signIn(signing);
  if (!signed.ok) return signed;
  const headers = [[SIGN_IN_HEADER, signed.value]] as const;
  const asked = await ask(signing, { method: "GET", path: BALANCE_PATH, headers });
  if (!asked.ok) return asked;
  const { answer, said } = asked.value;
  if (answer.status === 404) return err(`${host} takes no prepayment`);
  // Whoever has neither paid nor prepaid is a stranger there, and is told so.
  if (answer.status !== 200) return err(refusalOf(answer, said));
  const balances = readBalances(said);
  if (balances === undefined) return err(`${host} tells no balance that can be read`);
  const { buy } = Object(said);
  return ok({ balances, buy: typeof buy === "string" ? buy : null });
}

function readBalances(said: unknown): readonly PrepaidBalance[] | undefined {
  const { credits } = Object(said);
  if (!Array.isArray(credits) || credits.length > MAX_BALANCES) return undefined;
  const read = credits.map((each): PrepaidBalance | undefined => {
    const { dollars, amount, token, family } = Object(each);
    const isAmount = typeof amount === "string" && parseUint256(amount) !== undefined;
    const isDollars =
      typeof dollars === "string" && /^[0-9]{1,78}(?:\.[0-9]{1,36})?$/.test(dollars);
    const isNamed = typeof token === "string" && typeof family === "string";
    return isAmount && isDollars && isNamed ? { dollars, token, family } : undefined;
  });
  const whole = read.filter((each) => each !== undefined);
  return whole.length === read.length ? whole : undefined;
}
