"""The command line, thin: options become the parameters of the library. Results on stdout, messages on stderr.

Knows everything, and nothing knows it. One file for each group of commands, `app` for what they share.
"""

import sys


def main() -> None:
    """The command `sparsedp`."""
    try:
        from .app import run  # which takes a moment, in which someone may press Ctrl-C

        run()
    except KeyboardInterrupt:
        sys.stderr.write("sparsedp: interrupted; no file was written, and what was debited stays debited\n")
        sys.exit(130)
