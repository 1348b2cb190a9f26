/** Certificates that change while connections live, and which of several a client gets. */
import { once } from "node:events";
import { mkdir, readFile, rename, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { connect as connectH2 } from "node:http2";
import { request } from "node:https";
import { connect } from "node:tls";
import { describe, expect, onTestFinished, test } from "vitest";
import { keyPairFault } from "../../../../src/config/facilitator/key-pair.ts";
import { EXPIRED, FIRST, LOCKED_KEY, SECOND, WILD } from "../../../support/listener-tls.ts";
import { Listener } from "../../../../src/gateway/listener/listener.ts";
import { createLogger } from "../../../../src/telemetry/logger.ts";
import { openShop } from "../shop.ts";
import { backend } from "../stage.ts";
import {
  answerOf,
  begin,
  connectHttp2,
  openSecureShop,
  send1,
  send2,
  writePair,
  PATIENT,
} from "./secure-stage.ts";

/** The name in the certificate that a new connection gets. */
function served(port: number, name?: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const servername = name === undefined ? {} : { servername: name };
    const place = { port, host: "127.0.0.1", rejectUnauthorized: false, ...servername };
    const socket = connect(place, () => {
      const { subject } = socket.getPeerCertificate();
      socket.destroy();
      resolve(String(subject.CN));
    });
    socket.once("error", reject);
  });
}

const BEFORE = "first.shop.example";
const AFTER = "second.shop.example";

function greeting(): Promise<string> {
  return backend((_, response) => void response.end("hello"));
}

describe("new files", () => {
  test("are served to new connections on demand, and old ones go on", async () => {
    const { promise: isChanged, resolve } = Promise.withResolvers<void>();
    const origin = await backend((request, response) => {
      response.write("first ");
      if (request.url === "/free") response.end();
      else void isChanged.then(() => response.end("second"));
    });
    const { port, listener, folder, log } = await openSecureShop(origin);
    const session = await connectHttp2(port);
    const under = answerOf(begin(session, { path: "/free/slow" }));
    expect(await served(port)).toBe(BEFORE);
    await writePair(folder, SECOND);
    expect(await listener.reloadCertificate()).toBe(true);
    expect(await served(port)).toBe(AFTER);
    resolve();
    expect((await under).body.toString()).toBe("first second");
    expect((await send2(session)).status).toBe(200);
    expect(log.join()).toContain("the new certificate is in use");
  });

  test("are seen when they are written", async () => {
    const { port, folder } = await openSecureShop(await greeting());
    await writePair(folder, SECOND);
    await expect.poll(() => served(port), PATIENT).toBe(AFTER);
  });

  test("are seen when they are put in the place of the old ones, as editors do", async () => {
    const { port, folder } = await openSecureShop(await greeting());
    for (const [name, text] of [
      ["tls.crt", SECOND.cert],
      ["tls.key", SECOND.key],
    ] as const) {
      await writeFile(join(folder, `.${name}.swp`), text);
      await rename(join(folder, `.${name}.swp`), join(folder, name));
    }
    await expect.poll(() => served(port), PATIENT).toBe(AFTER);
  });

  test("are seen when a link to their folder changes, as in Kubernetes", async () => {
    const { folder, shop } = await openSecureShop(await greeting());
    const mount = join(folder, "mount");
    for (const [name, pair] of [
      ["one", FIRST],
      ["two", SECOND],
    ] as const) {
      await mkdir(join(mount, name), { recursive: true });
      await writePair(join(mount, name), pair);
    }
    await symlink("one", join(mount, "..data"));
    await symlink("..data/tls.crt", join(mount, "tls.crt"));
    await symlink("..data/tls.key", join(mount, "tls.key"));
    const logger = createLogger({ level: "silent", format: "json" });
    const files = { certFile: join(mount, "tls.crt"), keyFile: join(mount, "tls.key") };
    const listener = new Listener(shop.gateway, {
      host: "127.0.0.1",
      port: 0,
      headerBytes: 16_384,
      tls: { certificates: [files], judge: keyPairFault, logger },
    });
    const { port } = await listener.open();
    expect(await served(port)).toBe(BEFORE);
    await symlink("two", join(mount, "..data_tmp"));
    await rename(join(mount, "..data_tmp"), join(mount, "..data"));
    await expect.poll(() => served(port), PATIENT).toBe(AFTER);
    await listener.drain(AbortSignal.abort());
  });

  test.each([
    ["the key of another certificate", SECOND.cert, FIRST.key, "does not match the key"],
    ["no certificate", "nothing", FIRST.key, "has no certificate in PEM form"],
    ["a key with a passphrase", FIRST.cert, LOCKED_KEY, "has a passphrase"],
    ["half a key", SECOND.cert, SECOND.key.slice(0, 100), "has no private key in PEM form"],
  ])("with %s are not used, and that is said once", async (_name, cert, key, reason) => {
    const { port, listener, folder, log } = await openSecureShop(await greeting());
    await writePair(folder, { cert, key });
    expect(await listener.reloadCertificate()).toBe(false);
    expect(await listener.reloadCertificate()).toBe(false);
    expect(await served(port)).toBe(BEFORE);
    const said = log.filter((line) => line.includes("the new certificate is not used"));
    expect(said).toHaveLength(1);
    expect(said[0]).toContain(reason);
    expect(said[0]).not.toContain("BEGIN");
    await writePair(folder, SECOND);
    expect(await listener.reloadCertificate()).toBe(true);
    expect(await served(port)).toBe(AFTER);
  });

  test("that are gone, and come back, change nothing", async () => {
    const { port, listener, folder, log } = await openSecureShop(await greeting());
    await rm(join(folder, "tls.key"));
    expect(await listener.reloadCertificate()).toBe(false);
    expect(await served(port)).toBe(BEFORE);
    await writeFile(join(folder, "tls.key"), FIRST.key);
    expect(await listener.reloadCertificate()).toBe(true);
    expect(log.join()).toContain("cannot be read (ENOENT)");
  });

  test("that have expired are served, with a warning", async () => {
    const { port, listener, folder, log } = await openSecureShop(await greeting());
    await writePair(folder, EXPIRED);
    expect(await listener.reloadCertificate()).toBe(true);
    expect(await served(port)).toBe("shop.example");
    expect(log.join()).toContain("has expired on 2021-01-01");
  });
});

describe("of several certificates", () => {
  const WILD_NAME = "wild.shop.example";

  /** The first two pairs are of these names, in folders of their own. */
  async function openSeveral() {
    const first = await openSecureShop(await greeting());
    const folders = [join(first.folder, "one"), join(first.folder, "two")] as const;
    for (const folder of folders) await mkdir(folder);
    await writePair(folders[0], FIRST);
    await writePair(folders[1], WILD);
    const certificates = folders.map((folder) => {
      return { certFile: join(folder, "tls.crt"), keyFile: join(folder, "tls.key") };
    });
    const log: string[] = [];
    const destination = { write: (line: string) => void log.push(line) };
    const logger = createLogger({ level: "info", format: "json", destination });
    const used: string[] = [];
    const onUsed = (file: string, ms: number): void => {
      used.push(`${file.slice(first.folder.length)} ${new Date(ms).getUTCFullYear()}`);
    };
    const listener = new Listener(first.shop.gateway, {
      host: "127.0.0.1",
      port: 0,
      headerBytes: 16_384,
      tls: { certificates, judge: keyPairFault, logger, onUsed },
    });
    onTestFinished(() => listener.drain(AbortSignal.abort()));
    const { port } = await listener.open();
    return { port, listener, folders, log, used };
  }

  /** What a client does that trusts these two alone, by each protocol: the status, or why it refuses. */
  function visit(port: number, servername: string): Promise<readonly [h1: unknown, h2: unknown]> {
    const place = { host: "127.0.0.1", port, servername, ca: [FIRST.cert, WILD.cert] };
    const h1 = new Promise<unknown>((resolve) => {
      const options = { ...place, path: "/free", headers: { host: "shop.example" }, agent: false };
      const asked = request(options, (answer) => resolve(answer.resume().statusCode));
      asked.once("error", ({ message }) => resolve(message));
      asked.end();
    });
    const h2 = new Promise<unknown>((resolve) => {
      const session = connectH2(`https://127.0.0.1:${port}`, place);
      session.once("error", ({ message }) => resolve(message));
      session.once("connect", async () => {
        const { status } = await answerOf(begin(session));
        session.destroy();
        resolve(status);
      });
    });
    return Promise.all([h1, h2]);
  }

  test("each name gets its own by either protocol, and who names another or none the first", async () => {
    const { port, used } = await openSeveral();
    for (const name of ["shop.example", "www.shop.example", "WWW.SHOP.example", "other.example"]) {
      expect(await visit(port, name), name).toEqual([200, 200]);
    }
    const refused = expect.stringContaining("altnames");
    for (const name of ["a.b.shop.example", "elsewhere.example"]) {
      expect(await visit(port, name), name).toEqual([refused, refused]);
    }
    expect(await served(port, "other.example")).toBe(WILD_NAME);
    expect(await served(port, "elsewhere.example")).toBe(BEFORE);
    expect(await served(port)).toBe(BEFORE);
    expect(used).toEqual(["/one/tls.crt 2125", "/two/tls.crt 2125"]);
  });

  test("one that is half written stays as it was, and the others change meanwhile", async () => {
    const { port, listener, folders, log } = await openSeveral();
    await writeFile(join(folders[1], "tls.crt"), SECOND.cert);
    await writePair(folders[0], SECOND);
    expect(await listener.reloadCertificate()).toBe(false);
    expect(await served(port, "other.example")).toBe(WILD_NAME);
    expect(await served(port)).toBe(AFTER);
    const said = log.filter((line) => line.includes("the new certificate is not used"));
    expect(said).toHaveLength(1);
    expect(said[0]).toContain(`${join(folders[1], "tls.crt")} does not match the key`);
    // The pair is whole, and for other names than before: those are nobody's any more.
    await writePair(folders[0], WILD);
    await writeFile(join(folders[1], "tls.key"), SECOND.key);
    expect(await listener.reloadCertificate()).toBe(true);
    expect(await served(port, "shop.example")).toBe(AFTER);
    expect(await served(port, "other.example")).toBe(WILD_NAME);
    expect(await served(port, "elsewhere.example")).toBe(WILD_NAME);
  });

  test("a session is taken up again under the name that it began with", async () => {
    const { port } = await openSeveral();
    const place = { host: "127.0.0.1", port, servername: "other.example", ca: WILD.cert };
    const visited = async (session?: Buffer) => {
      const socket = connect({ ...place, ...(session === undefined ? {} : { session }) });
      let ticket: Buffer | undefined;
      socket.on("session", (told: Buffer) => (ticket = told));
      socket.write("GET /free HTTP/1.1\r\nHost: shop.example\r\n\r\n");
      await once(socket, "data");
      const isReused = socket.isSessionReused();
      socket.destroy();
      return { isReused, ticket };
    };
    const { isReused, ticket } = await visited();
    expect(isReused).toBe(false);
    expect((await visited(ticket)).isReused).toBe(true);
  });

  test("one that cannot be served keeps the listener from opening", async () => {
    const { folder, shop } = await openSecureShop(await greeting());
    const good = { certFile: join(folder, "tls.crt"), keyFile: join(folder, "tls.key") };
    const logger = createLogger({ level: "silent", format: "json" });
    const certificates = [good, { ...good, keyFile: join(folder, "none.key") }];
    const listener = new Listener(shop.gateway, {
      host: "127.0.0.1",
      port: 0,
      headerBytes: 16_384,
      tls: { certificates, judge: keyPairFault, logger },
    });
    await expect(listener.open()).rejects.toThrow(/none\.key cannot be read/);
  });
});

test("a listener whose files cannot be served does not open, and says why", async () => {
  const { folder, shop } = await openSecureShop(await greeting());
  const logger = createLogger({ level: "silent", format: "json" });
  const files = { certFile: join(folder, "tls.crt"), keyFile: join(folder, "none.key") };
  const place = { host: "127.0.0.1", port: 0, headerBytes: 16_384 };
  const open = (keyFile: string) =>
    new Listener(shop.gateway, {
      ...place,
      tls: { certificates: [{ ...files, keyFile }], judge: keyPairFault, logger },
    }).open();
  await expect(open(join(folder, "none.key"))).rejects.toThrow(/none\.key cannot be read/);
  await expect(open(join(folder, "tls.crt"))).rejects.toThrow(/has no private key/);
});

test("no request fails while the certificate changes under load", async () => {
  const { port, listener, folder } = await openSecureShop(await greeting());
  const session = await connectHttp2(port);
  const over = new AbortController();
  let served2 = 0;
  let served1 = 0;
  const load2 = async (): Promise<void> => {
    while (!over.signal.aborted) {
      const { status, rstCode } = await send2(session);
      expect({ status, rstCode }).toEqual({ status: 200, rstCode: 0 });
      served2 += 1;
    }
  };
  const load1 = async (): Promise<void> => {
    while (!over.signal.aborted) {
      expect((await send1(port)).status).toBe(200);
      served1 += 1;
    }
  };
  const loads = [load2(), load2(), load2(), load1(), load1()];
  for (let round = 0; round < 10; round += 1) {
    await writePair(folder, round % 2 === 0 ? SECOND : FIRST);
    expect(await listener.reloadCertificate()).toBe(true);
    const before = served1 + served2;
    await expect.poll(() => served1 + served2 > before + 20, PATIENT).toBe(true);
  }
  over.abort();
  await Promise.all(loads);
  expect(await readFile(join(folder, "tls.crt"), "utf8")).toBe(FIRST.cert);
  expect(await served(port)).toBe(BEFORE);
});

test("the shop in the clear is not touched", async () => {
  const shop = await openShop(await greeting());
  const logger = createLogger({ level: "silent", format: "json" });
  const place = { host: "127.0.0.1", port: 0, headerBytes: 16_384, logger };
  const listener = new Listener(shop.gateway, place);
  await listener.open();
  expect(await listener.reloadCertificate()).toBe(true);
  await listener.drain(AbortSignal.abort());
});
