/** A client that takes nothing of an answer of ours for so long is given up, milliseconds. */
export const UNREAD_MS = 60_000;
