/** Debian's own, which has what Debian packages for it (`python3-requests`); another one may come first in the path. */
export const DEBIAN_PYTHON = "/usr/bin/python3";
