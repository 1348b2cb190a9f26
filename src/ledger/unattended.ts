/** Accounts that signed something which is not final yet, and that nobody who has their key looks after. */
export interface UnattendedAccount {
  readonly network: string;
  /** As it is stored: EVM addresses in lower case. */
  readonly address: string;
}

export interface LeftAccount extends UnattendedAccount {
  /** Of its last lease: where it has changed, somebody with the key has been at work meanwhile. */
  readonly epoch: number;
}

export interface Unattended {
  /** Those on any network with a submission that is not CLOSED, whose lease no other living life holds. */
  unattended(): Promise<readonly LeftAccount[]>;
}
