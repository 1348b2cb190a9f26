/** The shape of an address at which something is served, with or without TLS. */
import { z } from "zod";
import { LISTEN_ADDRESS, PORT } from "./forms.ts";
import { LISTEN_ADDRESS_FORM, readListenAddress } from "./reading.ts";
import { described, flag, map, optional, plainText, reader, text } from "./shapes.ts";

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
    }),
  ],
  "must be host:port or { address, timeline }",
);
