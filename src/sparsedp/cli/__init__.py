"""A thin command line: options become parameters of the library. Results go to stdout, messages to
stderr.

Uses every other room, and none uses it. Each group of commands has its own file; `app` holds what
they share.
"""

import sys


def main() -> None:
    """The command `sparsedp`."""
    try:
        from .app import run  # this import takes a moment, and the user may press Ctrl-C meanwhile

        run()
    except KeyboardInterrupt:
        sys.stderr.write("sparsedp: interrupted; no file was written, and anything already debited stays debited\n")
        sys.exit(130)
