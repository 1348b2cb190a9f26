/** How much of a seller's answer is kept and told, and what is said of the rest. */
import { expect, test } from "vitest";
import { AnswerPot, MAX_ANSWER_BYTES } from "../../../../src/buyer/agent/told-answer.ts";

async function told(...parts: readonly Uint8Array[]) {
  const pot = new AnswerPot();
  for (const part of parts) await pot.write(part);
  return pot.told(200, "text/plain");
}

test("an answer that fits is told whole, as text where it is some", async () => {
  const text = Buffer.from("caf\u00e9");
  expect(await told(text.subarray(0, 4), text.subarray(4))).toMatchObject({
    bytes: 5,
    isCut: false,
    encoding: "text",
    body: "caf\u00e9",
  });
  expect(await told(Buffer.from([0xff, 0x00]))).toMatchObject({ encoding: "base64", body: "/wA=" });
  expect(await told()).toMatchObject({ bytes: 0, encoding: "text", body: "" });
});

test("a larger one is cut, also where that is in the middle of a character, and its size is told", async () => {
  const whole = Buffer.from(`${"a".repeat(MAX_ANSWER_BYTES - 1)}\u00e9${"b".repeat(1_000)}`);
  const cut = await told(whole.subarray(0, 70_000), whole.subarray(70_000), Buffer.from("more"));
  expect(cut).toMatchObject({ bytes: whole.length + 4, isCut: true, encoding: "text" });
  expect(cut.body).toBe("a".repeat(MAX_ANSWER_BYTES - 1));
  const exact = await told(Buffer.alloc(MAX_ANSWER_BYTES, 97));
  expect(exact).toMatchObject({ isCut: false, bytes: MAX_ANSWER_BYTES });
  // What is no text stays none, however it is cut.
  const bytes = await told(Buffer.alloc(MAX_ANSWER_BYTES + 1, 0xff));
  expect(bytes).toMatchObject({ encoding: "base64", isCut: true });
});
