"""The exceptions of sparsedp.

    SparseDPError
    ├── ParameterError (ValueError)      a public parameter is wrong; raised before any data is read
    ├── InputError (ValueError)          the data is malformed: not a number, negative, not a key
    │   └── KeyTypeError (TypeError)     a key has a type that cannot be a key
    ├── FormatError (ValueError)         a file is damaged, or is not a release
    ├── RemoteError (OSError)            a remote file cannot be read, or has changed
    ├── LedgerError                      a ledger file is damaged, locked, or has a newer version
    ├── BudgetError                      the budget does not allow this release; nothing was spent
    ├── SpentError                       a release failed after its debit, which stays
    ├── ReproducibleReleaseError         a release was built with test-only randomness
    └── MissingDependencyError (ImportError)   an optional package is needed for this

An `OverloadWarning` reports a release that is fuller than planned, judged by what is published. A
`SuggestionWarning` reports a suggested bound that may follow from noise alone, judged likewise.

Every message says what was wrong, the value, and the fix. Nothing else raised while a release is
built may depend on the data.
"""

import os


class SparseDPError(Exception):
    """Base of every exception of this package."""


class ParameterError(SparseDPError, ValueError):
    """A public parameter is out of range or does not fit the others."""


class InputError(SparseDPError, ValueError):
    """The data is malformed; nothing was released or spent."""


class KeyTypeError(InputError, TypeError):
    """A key has a type that cannot be a key."""


class FormatError(SparseDPError, ValueError):
    """A file is damaged, has a newer format, or is not a release at all."""


class RemoteError(SparseDPError, OSError):
    """A remote file cannot be read: its server or the network fails, or it has changed since it was
    opened.
    """


class LedgerError(SparseDPError):
    """A ledger file is damaged, has a newer version, is locked, or is not a ledger at all."""


class BudgetError(SparseDPError):
    """The budget does not allow this release; nothing was spent."""


class SpentError(SparseDPError):
    """A release failed after its budget was debited; the debit stays."""


class ReproducibleReleaseError(SparseDPError):
    """A release was built with the test-only randomness, which protects nobody."""


class MissingDependencyError(SparseDPError, ImportError):
    """An optional package is not installed."""


class OverloadWarning(UserWarning):
    """There are far more keys than a release was sized for: its answers are honest, but less
    precise than planned.
    """


class SuggestionWarning(UserWarning):
    """There are too few users to suggest how many keys of each to count: the suggested bound is a
    public default.
    """


def reason_of(error: BaseException) -> str:
    """What went wrong, in one line; for errors of the operating system, its message and the files."""
    if isinstance(error, OSError) and error.strerror is not None:
        files = [os.fsdecode(name) for name in (error.filename, error.filename2) if isinstance(name, (str, bytes))]
        return ": ".join([error.strerror, *([" -> ".join(files)] if files else [])])
    return str(error) or ("out of memory" if isinstance(error, MemoryError) else type(error).__name__)
