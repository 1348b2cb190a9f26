import type { Environment } from "../../../src/config/config.ts";

export const KEY = `0x${"5a".repeat(32)}`;
export const FILE_KEY = "6b".repeat(32);
export const TOKEN = "a-very-secret-token";

const FILES: Readonly<Record<string, string>> = {
  "/run/secrets/key": `${FILE_KEY}\n`,
  "/run/secrets/duration": " 45s\n",
};

/** A fixed environment, so that what is said about a file never depends on the machine. */
export const environment: Environment = {
  env: {
    KEY,
    TOKEN,
    ZERO_KEY: `0x${"00".repeat(32)}`,
    MALFORMED_KEY: "not a key, but still a secret",
    EMPTY: "",
    BARE_NUMBER: "0.02",
    FROM_FILE_FILE: "/run/secrets/duration",
    UNREADABLE_FILE: "/run/secrets/none",
  },
  readFile: (path) => {
    const text = FILES[path];
    if (text === undefined) throw new Error(`no such file: ${path}`);
    return text;
  },
};
