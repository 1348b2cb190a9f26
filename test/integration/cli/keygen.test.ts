/** `coinslot keygen`: its keys are for their owner alone, and what it writes is what a configuration accepts. */
import { mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { privateKeyToAddress } from "viem/accounts";
import { afterEach, beforeEach, expect, test } from "vitest";
import { loadConfig } from "../../../src/config/config.ts";
import { Keypair } from "../../../src/mechanism/solana/signing.ts";
import { runCoinslot } from "../../support/serve.ts";
import { runHere } from "./run-here.ts";

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "coinslot-keygen-"));
});

afterEach(() => rm(folder, { recursive: true }));

const KEYS = {
  evm: /0x[0-9a-f]{64}/,
  solana: /\[(?:\d{1,3},){63}\d{1,3}\]/,
} as const;

test.each([
  ["evm", "base-sepolia", "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"],
  ["solana", "solana-devnet", "2wKupLR9q6wXYppw8Gr2NvWxKBUqm4PPJKkQfoxHDBg4"],
] as const)(
  "a key for %s settles payments, and its address is told",
  async (family, network, payTo) => {
    const out = join(folder, "key");
    const { code, stdout, stderr } = await runHere(["keygen", family, "--out", out]);
    expect(code).toBe(0);
    const text = await readFile(out, "utf8");
    expect(text).toMatch(KEYS[family]);
    expect(stdout + stderr).not.toMatch(KEYS[family]);
    expect((await stat(out)).mode & 0o777).toBe(0o600);

    const file = join(folder, "gateway.yaml");
    await writeFile(
      file,
      `upstream: http://localhost:3000
publicUrl: http://localhost:8402
payTo: "${payTo}"
accept: [${network}]
facilitator: { embedded: { networks: { ${network}: { rpc: [http://localhost:1], signers: ["file:./key"] } } } }
unmatched: deny
routes: { GET /a: $0.01 }
`,
    );
    const loaded = await loadConfig(file);
    if (!loaded.ok) throw new Error("the configuration is refused");
    const key = loaded.config.facilitator.embedded[0]?.signers[0]?.key.reveal() ?? "";
    const address =
      family === "evm"
        ? privateKeyToAddress(`0x${key.slice(2)}`)
        : new Keypair(Buffer.from(key, "hex")).address;
    expect(stdout).toBe(`${address}\n`);
  },
);

test("a file that is there is never overwritten", async () => {
  const out = join(folder, "key");
  await writeFile(out, "precious");
  const { code, stdout, stderr } = await runHere(["keygen", "evm", "-o", out]);
  expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
  expect(stderr).toContain("exists already, and a key is never overwritten");
  expect(await readFile(out, "utf8")).toBe("precious");
});

test("the key goes to stdout when it is asked for, and then to no file", async () => {
  const { code, stdout, stderr } = await runHere(["keygen", "evm", "--print"]);
  expect(code).toBe(0);
  expect(stdout).toMatch(/^0x[0-9a-f]{64}\n$/);
  expect(stderr).toBe(`address ${privateKeyToAddress(`0x${stdout.trim().slice(2)}`)}\n`);
  expect((await runHere(["keygen", "evm", "--print", "-o", join(folder, "x")])).code).toBe(2);
});

test("no two keys are alike, and a family that is none is wrong usage", async () => {
  const keys = await Promise.all(
    [1, 2].map(async () => (await runCoinslot(["keygen", "solana", "--print"])).stdout),
  );
  expect(keys[0]).toMatch(KEYS.solana);
  expect(keys[0]).not.toBe(keys[1]);
  expect((await runHere(["keygen", "bitcoin"])).code).toBe(2);
});
