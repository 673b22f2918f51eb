"""The command line: thin words around the library. Results on stdout, progress and words on stderr."""

import sys


def main() -> None:
    """The command `sparsedp`."""
    try:
        from .app import run  # which takes a moment, in which someone may press Ctrl-C

        run()
    except KeyboardInterrupt:
        sys.stderr.write("sparsedp: interrupted; no file was written, and what was debited stays debited\n")
        sys.exit(130)
