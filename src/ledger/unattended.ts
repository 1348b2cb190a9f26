/** Accounts that signed something which is not final yet, and that nobody who has their key looks after. */
export interface Account {
  readonly network: string;
  /** As it is stored: EVM addresses in lower case. */
  readonly address: string;
}

export interface Unattended {
  /** Those on any network with a submission that is not CLOSED, whose lease no other living life holds. */
  unattended(): Promise<readonly Account[]>;
}
