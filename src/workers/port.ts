/** One end of the connection between a process and one that it forked, as node gives it to both of them. */
import type { ChildProcess, SendHandle } from "node:child_process";

/** Messages arrive whole, in order, and once; what is sent when the other end is gone is lost. */
export interface Port {
  /** `handle`: a socket that the other end shares from then on. `onSent`: it does, or it never will. */
  send(message: object, handle?: unknown, onSent?: () => void): void;
  onMessage(listener: (message: unknown, handle: unknown) => void): void;
  /** The other end is gone, or has closed. */
  onClose(listener: () => void): void;
  close(): void;
}

/** In the process that forked. */
export function portOfChild(child: ChildProcess): Port {
  return {
    send(message, handle, onSent) {
      // Nothing is lost that an error would tell about: `onClose` does.
      const done = (): void => onSent?.();
      if (child.connected) child.send(message, handle as SendHandle | undefined, {}, done);
      else done();
    },
    onMessage: (listener) => void child.on("message", listener),
    onClose: (listener) => void child.on("disconnect", listener),
    close: () => {
      if (child.connected) child.disconnect();
    },
  };
}

/** In a forked process; undefined where this one was not forked. */
export function portOfParent(): Port | undefined {
  if (process.send === undefined) return undefined;
  return {
    send(message, handle, onSent) {
      const done = (): void => onSent?.();
      if (process.connected) process.send?.(message, handle as SendHandle | undefined, {}, done);
      else done();
    },
    onMessage: (listener) => void process.on("message", listener),
    onClose: (listener) => void process.on("disconnect", listener),
    close: () => {
      if (process.connected) process.disconnect();
    },
  };
}
