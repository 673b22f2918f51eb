"""The command line: thin words around the library. Results on stdout, progress and words on stderr."""


def main() -> None:
    """The command `sparsedp`."""
    from .app import run

    run()
