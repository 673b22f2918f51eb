"""Releases as files and directories of parts, written so that they appear complete or not at all
(docs/format.md).
"""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from ..errors import FormatError
from ..keys.hashing import KeySpace
from ..keys.kept import wrong_keys
from ..mechanisms import Arrays, Parts, Plan
from ..mechanisms.partial import outline
from .addresses import Address, check_local
from .container import (
    NO_DIGEST,
    Container,
    blank_checksums,
    check_writable,
    checksums,
    from_bytes,
    hidden_beside,
    is_begun_by_us,
    naming,
    read,
    replacing,
    size_of,
    sync_directory,
    write,
)
from .description import (
    HEADER_NAME,
    Contents,
    Kind,
    arrays_of,
    check_description,
    contents_of,
    described,
    listed_parts,
    own_arrays,
    part_description,
    part_name,
    prefixed,
    refuse,
    shared_arrays,
)


def save(contents: Contents, path: Path) -> None:
    """Write a file, or a directory if there are several parts; it appears only when it is complete."""
    parts = contents.plan.problem.parts
    if parts == 1:
        check_release(path)
        with replacing(path) as file:
            write(file, *described(contents, prefixed([side[0] for side in contents.sides]), [], checksums))
        return
    with new_directory(path) as directory:
        digests = [
            write_part(directory, part, parts, own_arrays(contents, part), contents.format) for part in range(parts)
        ]
        _write_header(directory, contents, digests)


def check_new(path: Path, parts: int, read: Iterable[str | os.PathLike[str]] = ()) -> None:
    """`OSError` unless a release can be written there, and would replace nothing but a release that it
    is not made from; checked before anything is spent on it.
    """
    check_local(path)
    check_unread(path, read)
    if parts > 1 and path.exists():
        raise FileExistsError(f"{path} exists; a release of several parts needs a new directory")
    if parts == 1:
        check_release(path)
    if not path.absolute().parent.is_dir():
        raise FileNotFoundError(f"there is no directory {path.absolute().parent} to write {path.name} into")
    check_writable(path)


def check_unread(path: Path, read: Iterable[str | os.PathLike[str]]) -> None:
    """`FileExistsError` if the path is one of these files."""
    if any(path.exists() and os.path.exists(file) and os.path.samefile(path, file) for file in read):
        raise FileExistsError(f"{path} is read for this release, which would replace it; name another file")


def check_release(path: Path) -> None:
    """`FileExistsError` for a file that is no release: what it holds would be lost. An empty one holds
    nothing.
    """
    if path.is_file() and path.stat().st_size and not is_begun_by_us(path):
        raise FileExistsError(f"{path} exists and is not a release; name another file, or remove it first")


@contextmanager
def new_directory(path: Path) -> Iterator[Path]:
    """A new directory for the files of a release; at the end of the block it becomes `path`, or on
    error is removed.
    """
    check_new(path, parts=2)
    temporary = hidden_beside(path)
    with naming(path):
        try:
            temporary.mkdir()
            yield temporary
            os.rename(temporary, path)
            sync_directory(path.parent)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise


def write_part(directory: Path, part: int, of: int, sides: Sequence[Arrays], version: int) -> str:
    """Write one part of a release and return the digest that the header file must list."""
    arrays = prefixed(sides)
    sums = checksums(arrays)
    with replacing(directory / part_name(part)) as file:
        return write(file, part_description(version, part, of, sums), arrays)


def finish_parts(directory: Path, plan: Plan, space: KeySpace, reproducible: bool, digests: list[str]) -> None:
    """Write the file that turns the parts in the directory into a release, whichever process wrote
    them.
    """
    sides: tuple[Parts, ...] = ()
    if plan.shared_shapes:  # shared arrays follow from what each part has published
        pieces = [read(directory / part_name(part)).arrays for part in range(len(digests))]
        built = (tuple(arrays_of(piece, plan.array_shapes, side) for piece in pieces) for side in range(plan.releases))
        sides = tuple(plan.completed(side) for side in built)
    _write_header(directory, Contents(plan, space, sides, reproducible), digests)


def _write_header(directory: Path, contents: Contents, digests: list[str]) -> None:
    with replacing(directory / HEADER_NAME) as file:
        write(file, *described(contents, shared_arrays(contents), digests, checksums))


def to_bytes(contents: Contents) -> bytes:
    """The file of a release of one part, in memory."""
    file = io.BytesIO()
    write(file, *described(contents, prefixed([side[0] for side in contents.sides]), [], checksums))
    return file.getvalue()


def nbytes(contents: Contents) -> int:
    """The size in bytes of the file, or of all files, that `save` writes; no array is read for it."""
    outlines = tuple(tuple({name: outline(part, name) for name in part} for part in side) for side in contents.sides)
    contents = replace(contents, sides=outlines)
    parts = contents.plan.problem.parts
    if parts == 1:
        whole = prefixed([side[0] for side in contents.sides])
        return size_of(*described(contents, whole, [], blank_checksums))
    each = [prefixed(own_arrays(contents, part)) for part in range(parts)]
    header = size_of(*described(contents, shared_arrays(contents), [NO_DIGEST] * parts, blank_checksums))
    files = (
        (part_description(contents.format, part, parts, blank_checksums(own)), own) for part, own in enumerate(each)
    )
    return header + sum(size_of(*file) for file in files)


@contextmanager
def _naming(path: Path | Address) -> Iterator[None]:
    """Prefix errors about a file with its name."""
    try:
        yield
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from None


def load(path: Path | Address, kind: type[Kind]) -> Kind:
    """The release in a file or a directory, mapped or read when it is needed, with its header checked
    completely.
    """
    with _naming(path):
        return contents_of(*_open(path), kind, path)


def load_bytes(content: bytes, kind: type[Kind]) -> Kind:
    """The release that `to_bytes` wrote."""
    return contents_of(from_bytes(content), (), kind)


def verify(path: Path | Address) -> None:
    """`FormatError` unless every byte of a release is as it was written."""
    with _naming(path):
        if isinstance(path, Path):
            _verify(path)
            return
        with TemporaryDirectory(prefix="sparsedp-") as folder:  # a copy: one array after the other would be whole
            _verify(_copied(path, Path(folder) / "copy"))


def _verify(path: Path) -> None:
    header, parts = _open(path)
    for container, name in [(header, "the file"), *((part, part_name(at)) for at, part in enumerate(parts))]:
        stated = container.description["checksums"]
        for array, digest in checksums(container.arrays).items():
            if stated.get(array) != digest:
                raise FormatError(f"array {array!r} of {name} fails its checksum: the file is damaged")
    contents = contents_of(header, parts, Contents)
    for side in contents.sides:
        refuse(contents.plan.wrong_arrays(side, thorough=True))
    if contents.plan.problem.keep_keys:
        refuse(wrong_keys([arrays for side in contents.sides for arrays in side], contents.key_space))


def _copied(address: Address, path: Path) -> Path:
    """A copy of all files of a release that is elsewhere."""
    from . import remote

    directory, header = remote.open_first(address, HEADER_NAME)
    check_description(header, "release")
    if directory is None:
        remote.copy(address, path)
        return path
    path.mkdir()
    for name in (HEADER_NAME, *(part_name(at) for at in range(len(listed_parts(header))))):
        remote.copy(directory / name, path / name)
    return path


def _open(path: Path | Address) -> tuple[Container, tuple[Container, ...]]:
    """The header file, and the part files if there are any, checked against each other."""
    directory, header = _open_first(path)
    check_description(header, "release")
    listed = listed_parts(header)
    if bool(listed) != (directory is not None) or len(listed) == 1:
        raise FormatError("a release of several parts must be a directory, and a release of one part a file")
    if directory is None:
        return header, ()

    def open_part(at: int) -> Container:
        try:
            with _naming(Path(part_name(at))):
                part = _read(directory / part_name(at))
        except FileNotFoundError:
            raise FormatError(f"the release is incomplete: {part_name(at)} is missing") from None
        check_description(part, "part")
        if (part.description["part"], part.description["of"]) != (at, len(listed)):
            raise FormatError(f"{part_name(at)} must be part {at} of {len(listed)}")
        if part.digest != listed[at] or part.description["format"] != header.description["format"]:
            raise FormatError(f"{part_name(at)} is not the part that {HEADER_NAME} lists")
        return part

    with ThreadPoolExecutor() as pool:
        return header, tuple(pool.map(open_part, range(len(listed))))


def _read(path: Path | Address) -> Container:
    if isinstance(path, Path):
        return read(path)
    from . import remote  # and with it much that other files do not need

    return remote.read(path)


def _open_first(path: Path | Address) -> tuple[Path | Address | None, Container]:
    """The directory, if it is one, and the file with the header."""
    if isinstance(path, Address):
        from . import remote

        return remote.open_first(path, HEADER_NAME)
    if not path.is_dir():
        return None, read(path)
    if not (path / HEADER_NAME).exists():
        raise FormatError(f"a directory without {HEADER_NAME}: not a release, or an unfinished one")
    return path, read(path / HEADER_NAME)
