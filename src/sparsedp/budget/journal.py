"""The lines of a ledger file: how they are sealed, checked and summed up.

Every use checks every byte, but not always in the same way:

- Lines that this process has checked before must have the same SHA-256, all together.
- Otherwise, the lines before the last summary must have the SHA-256 that it states, and the lines
  from there on are checked one by one. The budgets, sums and kinds of debits are then those of the
  summary: a process needs milliseconds for a ledger with 10⁵ debits, not seconds.
- Whoever asks for entries from before the last summary (`Ledger.entries`, `ledger show`) gets the
  full check: every line is read, and every summary must say what the lines before it say. The same
  happens if the quick check fails in any way, so what is refused does not depend on it.

A summary is part of a commit and not a commit of its own, or another file: nothing can be killed
between them, or get out of step.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from contextlib import suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import NamedTuple

from .book import OLDEST, SUMMARIES, VERSION, Book, Change, DamageError, check_version

BLOCK = 512  # no disk writes only part of a block
HEADS = {
    version: f"sparsedp ledger, version {version}\nDo not edit: each line is sealed.\n".ljust(BLOCK - 1).encode()
    + b"\n"
    for version in range(OLDEST, VERSION + 1)
}
HEAD = HEADS[VERSION]
FIRST = 3 * BLOCK
DIGEST = 64
# A summary is due after so many bytes of lines, and after so many times the last summary: of two
# thousand kinds of debits, it is large.
TAIL = 1 << 16
TAIL_PER_SUMMARY = 5
PIECE = 1 << 20  # of a file, at a time
SUMMARY = b'[["summary",'  # within a text of JSON, the quotes would be escaped


class Mark(NamedTuple):
    """The lines up to some line: how many, where that line ends, and its digest."""

    number: int
    end: int
    digest: str

    def written(self) -> bytes:
        """The bytes in the file."""
        text = f"{self.number} {self.end} {self.digest} "
        return (text + hashlib.sha256(text.encode()).hexdigest()).ljust(BLOCK - 1).encode() + b"\n"

    def place(self) -> int:
        """Its place in the file: over the older of the two marks."""
        return BLOCK * (1 + self.number % 2)


STARTS = {version: Mark(0, FIRST, hashlib.sha256(head).hexdigest()) for version, head in HEADS.items()}


@dataclass
class Checked:
    """Lines that were checked, the marks of the last ones, and what they say."""

    seal: hashlib._Hash  # of all of them
    ends: list[Mark]
    book: Book
    summary: tuple[int, int] = (FIRST, FIRST)  # where the line of the last summary begins and ends

    def append(self, line: bytes, mark: Mark, has_summary: bool) -> None:
        """Add a line that was written."""
        if has_summary:
            self.summary = self.ends[-1].end, mark.end
        self.seal.update(line)
        self.ends.append(mark)


def due_summary(checked: Checked) -> list[Change]:
    """What the next line begins with: a summary, if one is due."""
    (start, end), last = checked.summary, checked.ends[-1]
    if checked.book.version < SUMMARIES or last.end - start < max(TAIL, TAIL_PER_SUMMARY * (end - start)):
        return []
    return [["summary", last.number, checked.seal.hexdigest(), *checked.book.stated()]]


def line_of(last: Mark, changes: list[Change]) -> tuple[bytes, Mark]:
    """The next line and its mark."""
    text = json.dumps(changes, separators=(",", ":")).encode()
    digest = _digest(last.digest, text)
    line = digest.encode() + b" " + text + b"\n"
    return line, Mark(last.number + 1, last.end + len(line), digest)


def _digest(before: str, text: bytes) -> str:
    return hashlib.sha256(before.encode() + text).hexdigest()


def check(file: FileIO, path: Path, known: Checked | None = None, since: int | None = 1) -> tuple[Checked, bool]:
    """The contents of a file with all entries from the debit `since` on, and whether it ends with its
    last whole line, whose mark is in it.
    """
    start = _read(file, 0, FIRST)
    versions = [version for version, head in HEADS.items() if start.startswith(head)]
    if not versions:
        stated = re.match(rb"sparsedp ledger, version ([1-9][0-9]{0,8})\n", start)
        check_version(path, bool(stated), int(stated[1]) if stated else 0)
        raise DamageError("its head is not as it was written")
    version = versions[0]
    marks = [mark for at in (1, 2) if (mark := _mark(start[at * BLOCK : (at + 1) * BLOCK], at))]
    if known is not None and _reaches(known, since) and _continues(file, version, marks, known):
        return _follow(file, marks, known)
    with suppress(DamageError):  # the full check says what is damaged
        known = _summarised(file, version)
        if known is not None and _reaches(known, since):
            return _follow(file, marks, known)
    return _follow(file, marks, Checked(hashlib.sha256(), [STARTS[version]], Book(version)))


def _follow(file: FileIO, marks: list[Mark], known: Checked) -> tuple[Checked, bool]:
    """Check the lines after those that are known, and the marks."""
    texts: list[bytes] = []
    ends, last = known.ends, known.ends[-1]
    base, sealed = last.end, 0
    rest = _read(file, base)
    while (end := rest.find(b"\n", last.end - base) + 1) > 0:
        start = last.end - base
        digest, text = rest[start : start + DIGEST + 1], rest[start + DIGEST + 1 : end - 1]
        found = _digest(last.digest, text)
        if digest != f"{found} ".encode():
            break
        if text.startswith(SUMMARY):
            known.seal.update(memoryview(rest)[sealed:start])
            sealed = start
            if not text.startswith(SUMMARY + f'{last.number},"{known.seal.hexdigest()}",'.encode()):
                raise DamageError("a summary is of other lines")
            known.summary = last.end, base + end
        texts.append(text)
        ends.append(last := Mark(last.number + 1, base + end, found))
    first = ends[0].number
    if not marks or any(mark not in ends[max(0, mark.number - first) : mark.number - first + 1] for mark in marks):
        raise DamageError("its totals and debits are not those that were written")
    newest = max(mark.number for mark in marks)
    if len(marks) == 1 and last.number == newest:  # the other mark may have been for a line that is gone
        raise DamageError("one of its marks is damaged")
    try:
        for changes in json.loads(b"[" + b",".join(texts) + b"]"):
            for change in changes:
                known.book.apply(change)
    except (ValueError, TypeError, RecursionError) as error:
        raise DamageError(str(error)) from error
    known.seal.update(memoryview(rest)[sealed : last.end - base])
    return known, newest == last.number and base + len(rest) == last.end


def _summarised(file: FileIO, version: int) -> Checked | None:
    """The lines before the last summary, as it states them; None if there is no summary. That it has
    their digest is still to be checked.
    """
    if version < SUMMARIES:
        return None
    size = base = os.fstat(file.fileno()).st_size
    window, at, end = TAIL, -1, b""
    while at < 0 and base > FIRST:
        window *= 4
        base = max(FIRST, size - window)
        end = _read(file, base)
        at = end.rfind(b" " + SUMMARY, DIGEST, end.rfind(b"\n") + 1)
    if at < 0:
        return None
    try:
        match json.loads(end[at + 1 : end.find(b"\n", at)]):
            case [[_, int(number), _, debits, datasets], *_]:
                book = Book.of_summary(version, debits, datasets)
            case _:
                raise ValueError("a summary is of another kind")
    except (ValueError, TypeError, ArithmeticError, LookupError, AttributeError, RecursionError) as error:
        raise DamageError(str(error)) from error
    start = base + at - DIGEST
    return Checked(_hashed(file, start), [Mark(number, start, _last_digest(file, start))], book)


def _last_digest(file: FileIO, end: int) -> str:
    """That of the line that ends here."""
    window = 0
    while True:
        window = 4 * window + TAIL
        start = max(FIRST, end - window)
        lines = _read(file, start, end - start)
        at = lines.rfind(b"\n", 0, -1) + 1
        if at or start == FIRST:
            return lines[at : at + DIGEST].decode(errors="replace")


def _reaches(known: Checked, since: int | None) -> bool:
    return since is None or since > known.book.summarised


def _continues(file: FileIO, version: int, marks: list[Mark], known: Checked) -> bool:
    """Whether a file begins with lines that were checked before, and none of its marks is older."""
    is_later = version == known.book.version and all(mark.number >= known.ends[0].number for mark in marks)
    return is_later and _hashed(file, known.ends[-1].end).digest() == known.seal.digest()


def _hashed(file: FileIO, end: int) -> hashlib._Hash:
    """The SHA-256 of all lines that end before here, read in pieces: new memory takes longer."""
    seal, piece, at = hashlib.sha256(), memoryview(bytearray(PIECE)), FIRST
    file.seek(FIRST)
    while read := file.readinto(piece[: max(0, end - at)]):
        seal.update(piece[:read])
        at += read
    return seal


def _read(file: FileIO, start: int, size: int = sys.maxsize) -> bytes:
    """The bytes from here on, as many as there are."""
    size = min(size, max(0, os.fstat(file.fileno()).st_size - start))
    read = b""
    while len(read) < size and (more := os.pread(file.fileno(), size - len(read), start + len(read))):
        read = read + more if read else more
    return read


def _mark(block: bytes, at: int) -> Mark | None:
    try:
        number, end, digest, _ = block.decode().split()
        mark = Mark(int(number), int(end), digest)
    except ValueError:
        return None
    return mark if mark.written() == block and mark.place() == at * BLOCK else None
