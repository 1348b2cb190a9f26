/** Where the process listens, and with which certificates. */

export interface ListenAddress {
  /** IP address or host name; null: every interface. */
  readonly host: string | null;
  /** 0 to 65535; 0 lets the system choose. */
  readonly port: number;
}

export interface AdminSettings extends ListenAddress {
  /** Whether requests are shown step by step, at /payments. */
  readonly timeline: boolean;
  /** Names that it answers to, lower-case, beside addresses and `localhost`: that of {@link host}, and those named. */
  readonly hosts: readonly string[];
}

export interface ListenerSettings extends ListenAddress {
  /** Null: HTTP/1.1 in the clear. */
  readonly tls: ListenerTls | null;
}

/** Absolute paths of two files in PEM, which are read again whenever they change. */
export interface ListenerTls {
  /** The certificate, and behind it those between it and the root. */
  readonly certFile: string;
  readonly keyFile: string;
}

/** An address without bits behind its prefix: dotted decimal with 0 to 32 of them, or IPv6 with 0 to 128. */
export interface AddressRange {
  readonly address: string;
  readonly prefixBits: number;
}
