/** What `doctor` says of the certificates that an authority gives. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { keep } from "../../../../src/certificates/kept.ts";
import { acmeChecks, listenerChecks } from "../../../../src/diagnosis/doctor/certificates.ts";
import { openSqliteLedger } from "../../../../src/ledger/sqlite/sqlite.ts";
import { systemTime } from "../../../../src/time/time.ts";
import { EXPIRED, FIRST } from "../../../support/listener-tls.ts";
import { configOf } from "../../app/config-of.ts";

const DIRECTORY = "https://ca.example/dir";

test("each name has its end, or what the authority said, or nothing yet", async () => {
  const folder = await mkdtemp(join(tmpdir(), "coinslot-doctor-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const path = join(folder, "ledger.db");
  const config = configOf(`
listen:
  - address: ":443"
    tls:
      acme:
        agreeToTerms: true
        directory: ${DIRECTORY}
        domains: [good.example, old.example, new.example, refused.example]
publicUrl: https://good.example
upstream: http://127.0.0.1:9
routes: { GET /free: free }
unmatched: deny
store: sqlite:${path}
`);
  const said = async (): Promise<readonly string[]> => {
    const found = await Promise.all(
      acmeChecks(config).map(({ run }) => run(new AbortController().signal)),
    );
    return found.flat().map(({ status, subject, message }) => `${status} ${subject}: ${message}`);
  };
  expect(await said()).toHaveLength(4);
  expect(new Set((await said()).map((line) => line.split(" ")[0]))).toEqual(new Set(["warn"]));
  const ledger = await openSqliteLedger({ path, time: systemTime, life: "one" });
  onTestFinished(() => ledger.close());
  for (const [domain, pair] of [
    ["good.example", FIRST],
    ["old.example", EXPIRED],
  ] as const) {
    const kept = { domain, directory: DIRECTORY, ...pair };
    await keep(ledger.certificates, ["certificate", domain], kept);
  }
  const failure = { directory: DIRECTORY, failures: 2, againMs: 0, reason: "unauthorized: no" };
  await keep(ledger.certificates, ["failure", "refused.example"], failure);
  // Of a clock that was ahead, and is not any more.
  const ahead = { ...failure, againMs: Date.now() + 60 * 86_400_000 };
  await keep(ledger.certificates, ["failure", "good.example"], ahead);
  expect(await said()).toEqual([
    expect.stringMatching(/^ok acme good\.example: the certificate is valid for [0-9]+ days/),
    "fail acme old.example: the certificate has expired on 2021-01-01",
    "warn acme new.example: there is no certificate yet",
    "fail acme refused.example: unauthorized: no; asked again at 1970-01-01T00:00:00.000Z",
  ]);
});

test("each certificate of a list has its own end", async () => {
  const folder = await mkdtemp(join(tmpdir(), "coinslot-doctor-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const pairs = { good: FIRST, old: EXPIRED, torn: { cert: EXPIRED.cert, key: FIRST.key } };
  for (const [name, { cert, key }] of Object.entries(pairs)) {
    await writeFile(join(folder, `${name}.crt`), cert);
    await writeFile(join(folder, `${name}.key`), key);
  }
  const certificates = Object.keys(pairs).map((name) => {
    return { certFile: join(folder, `${name}.crt`), keyFile: join(folder, `${name}.key`) };
  });
  const tls = { certificates };
  const config = {
    ...configOf(`
publicUrl: https://shop.example
upstream: http://127.0.0.1:9
routes: { GET /free: free }
unmatched: deny
store: sqlite:${join(folder, "ledger.db")}
`),
    listen: [{ host: null, port: 8443, tls, redirect: false }],
  };
  const { signal } = new AbortController();
  const found = await Promise.all(listenerChecks(config).map(({ run }) => run(signal)));
  const said = found
    .flat()
    .map(({ status, subject, message }) => `${status} ${subject} ${message}`);
  expect(said).toEqual([
    expect.stringMatching(/^ok listen\[0\] :8443 certificates\[0\] the certificate is valid for/),
    expect.stringMatching(/^fail listen\[0\] :8443 certificates\[1\] .*old\.crt has expired on/),
    expect.stringMatching(/^fail listen\[0\] :8443 certificates\[2\] .*torn\.crt does not match/),
  ]);
});
