/** What the chain shows before a payment is handed over, and after it was refused. */
import { verifiedBy } from "../../support/verified.ts";
import { examplePayment } from "../ledger/example-payment.ts";
import { onTheWire } from "../../../src/facilitator/wire-facilitator.ts";
import { describe, expect, test } from "vitest";
import { faultOf } from "../../support/fault-of.ts";
import { exampleRequest, TRANSACTION } from "../payments/settlement/example-request.ts";
import { handing, meshOver, nobody, scripted, settled, valid, verify } from "./mesh-stage.ts";
import { failed, success } from "./remote-stage.ts";
import {
  CONFIRMED,
  EXPIRED,
  HEAD,
  NO_CHAIN,
  scriptObserver,
  UNUSED,
} from "../payments/settlement/scripted-observer.ts";

const UNKNOWN = { kind: "unknown", code: "unexpected_settle_error" } as const;

const invalid = (invalidReason: string) => ({
  status: 200,
  body: { isValid: false, invalidReason },
});

describe("before anything is handed over, the chain", () => {
  const STANDS = { code: "invalid_transaction_state", detail: "the nonce is used" } as const;

  test("is asked at the same time as the facilitator, once", async () => {
    const observer = scriptObserver(UNUSED);
    const facilitator = await scripted(valid);
    const { router } = meshOver([facilitator], { observer });
    const heads: unknown[] = [];
    const onHandOver = async (_name: string, head: number | null) => void heads.push(head);
    const verified = await verifiedBy(router, exampleRequest, handing().signal);
    facilitator.reply = settled;
    const handed = handing({ onHandOver, verified });
    expect(await onTheWire(router).settle(exampleRequest, handed)).toEqual(success);
    expect([observer.standings, heads]).toEqual([1, [HEAD]]);
    // Asked to settle without that, it is asked then.
    expect(await onTheWire(router).settle(exampleRequest, handing({ onHandOver }))).toEqual(
      success,
    );
    expect([observer.standings, heads]).toEqual([2, [HEAD, HEAD]]);
  });

  test("keeps a used payment from everybody", async () => {
    const observer = scriptObserver(CONFIRMED);
    observer.stands = { head: HEAD, used: STANDS };
    const facilitator = await scripted(valid);
    const { router } = meshOver([facilitator], { observer });
    const said = { detail: STANDS.detail };
    expect(await verify(router)).toMatchObject({
      isValid: false,
      invalidReason: STANDS.code,
      ...said,
    });
    facilitator.reply = settled;
    const handed = handing();
    expect(await onTheWire(router).settle(exampleRequest, handed)).toMatchObject({
      ...failed,
      errorReason: STANDS.code,
      ...said,
    });
    expect([handed.names, facilitator.count("/settle")]).toEqual([[], 0]);
  });

  test("that cannot be asked keeps it from everybody, and nothing was charged", async () => {
    const observer = scriptObserver(CONFIRMED);
    observer.stands = NO_CHAIN;
    const facilitator = await scripted(valid);
    const { router } = meshOver([facilitator], { observer });
    expect(await faultOf(verify(router))).toMatchObject({
      kind: "unavailable",
      code: "unexpected_verify_error",
    });
    const handed = handing();
    expect(await faultOf(onTheWire(router).settle(exampleRequest, handed))).toMatchObject({
      kind: "unavailable",
      code: "unexpected_settle_error",
    });
    expect([handed.names, facilitator.count("/settle")]).toEqual([[], 0]);
  });

  test("is told with the same head to each facilitator that is asked", async () => {
    const heads: unknown[] = [];
    const onHandOver = async (_name: string, head: number | null) => void heads.push(head);
    const { router } = meshOver([await nobody(), await scripted(settled)], {
      observer: scriptObserver(UNUSED),
    });
    expect(await onTheWire(router).settle(exampleRequest, handing({ onHandOver }))).toEqual(
      success,
    );
    expect(heads).toEqual([HEAD, HEAD]);
  });

  test("is not waited for where the facilitator refuses", async () => {
    const observer = scriptObserver(UNUSED);
    observer.standing = () => new Promise(() => undefined);
    const { router } = meshOver([await scripted(invalid("insufficient_funds"))], { observer });
    expect(await verify(router)).toMatchObject({ isValid: false });
  });
});

describe("a refused payment that is presented again", () => {
  const { key } = examplePayment(1);
  const asked = { key, request: exampleRequest, idempotencyKey: "key", handedOverAt: HEAD };
  const doubted = { ...asked, facilitator: "https://gone.example" };

  test("is looked for once, and again after a pause", async () => {
    const observer = scriptObserver(UNUSED, CONFIRMED);
    const facilitator = await scripted(settled);
    const { router, time } = meshOver([facilitator], { observer });
    const again = { ...asked, facilitator: facilitator.url };
    for (let count = 0; count < 3; count += 1) {
      expect(await router.lookAgain(again, handing().signal)).toBeUndefined();
    }
    expect(observer.heads).toEqual([HEAD]);
    time.nowMs += 5_000;
    expect(await router.lookAgain(again, handing().signal)).toEqual(success);
    expect(facilitator.calls).toEqual([]);
  });

  test("is failed for good when two looks find the same", async () => {
    const { router } = meshOver([], { observer: scriptObserver(EXPIRED) });
    expect(await router.lookAgain(doubted, handing().signal)).toMatchObject(failed);
  });

  test("is unknown while the chain cannot be asked", async () => {
    const { router } = meshOver([], { observer: scriptObserver(NO_CHAIN) });
    const fault = await faultOf(router.lookAgain(doubted, handing().signal));
    expect(fault).toMatchObject(UNKNOWN);
  });

  test("is what it was where the chain is not configured any more", async () => {
    const { router } = meshOver([]);
    expect(await router.lookAgain(doubted, handing().signal)).toBeUndefined();
  });

  test("is for the operator where nobody that we know has settled it", async () => {
    const { router } = meshOver([], { observer: scriptObserver(CONFIRMED) });
    const fault = await faultOf(router.lookAgain(doubted, handing().signal));
    expect(fault).toMatchObject({ ...UNKNOWN, transaction: TRANSACTION });
  });
});
