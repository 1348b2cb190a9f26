/** The shape of an address at which something is served, with or without TLS. */
import { z } from "zod";
import { LISTEN_ADDRESS, PORT } from "../reading/forms.ts";
import { ok, type Result } from "../../x402/result.ts";
import type { Fault } from "../reading/problem.ts";
import { bad, LISTEN_ADDRESS_FORM, readListenAddress } from "../reading/reading.ts";
import {
  described,
  flag,
  listOf,
  map,
  matching,
  optional,
  plainText,
  reader,
  text,
} from "../reading/shapes.ts";

export const address = text(readListenAddress, LISTEN_ADDRESS, LISTEN_ADDRESS_FORM);
const port = reader(z.number(), (number) => readListenAddress(`:${number}`), PORT);

const filePath = plainText.min(1, "must be the path of a file in PEM");

export const listener = z.union(
  [
    address,
    port,
    map({
      address: described(address, "Where to listen: host:port, or :port for every interface."),
      tls: optional(
        map({
          cert: described(
            filePath,
            "File in PEM with the certificate, followed by those between it and the root. " +
              "It is read again when it changes.",
          ),
          key: described(filePath, "File in PEM with the private key of the certificate."),
        }),
        "With it the address speaks TLS, and HTTP/2 beside HTTP/1.1.",
      ),
    }),
  ],
  "must be host:port, :port or a port number",
);

const HOST = /^(?:\*\.)?[A-Za-z0-9](?:[A-Za-z0-9._-]{0,253}[A-Za-z0-9])?$/;
const HOST_FORM = "must be the name of a host, or *.NAME for all below it, without a port";
/** Names in a list at most. */
const MAX_HOSTS = 1024;

function readHost(name: string): Result<string, Fault> {
  return HOST.test(name) ? ok(name) : bad(HOST_FORM);
}

export const hostNames = listOf(
  text(readHost, matching(HOST, HOST_FORM, "api.example.com", "*.example.com")),
).max(MAX_HOSTS, `must have at most ${MAX_HOSTS} names`);

export const admin = z.union(
  [
    address,
    map({
      address: described(address, "Where to listen: host:port."),
      timeline: optional(
        flag,
        "Shows recent requests step by step at /payments, to whoever reaches this address. Without it: " +
          "only where that is this machine alone.",
      ),
      hosts: optional(
        hostNames,
        "Names that it is asked by, as scrapers are told them; it always answers to IP addresses and localhost.",
      ),
    }),
  ],
  "must be host:port or { address, timeline, hosts }",
);
