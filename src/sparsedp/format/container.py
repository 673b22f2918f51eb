"""The container of a release: a safetensors file, written atomically and memory-mapped when read
(docs/format.md).

The format is that of safetensors, and its readers can open our files. Its library is not used: for
NumPy it copies what it reads, and it does not align arrays to cache lines.
"""

from __future__ import annotations

import hashlib
import json
import math
import mmap
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from ..errors import FormatError
from .addresses import check_local

Arrays = dict[str, np.ndarray]

LINE = 64
LARGEST_HEADER = 1 << 20
LENGTH = 8  # bytes before the header, which say how long it is
_BEGIN = '{{"__metadata__":{{"sha256":"{}","sparsedp":"'
_DIGEST_AT = _BEGIN.format("").index('","sparsedp"')
_DIGEST_LENGTH = 64
_DTYPES: dict[str, np.dtype[Any]] = {
    "U64": np.dtype("<u8"),
    "I64": np.dtype("<i8"),
    "U16": np.dtype("<u2"),
    "U8": np.dtype("u1"),
    "BOOL": np.dtype("?"),
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_PADDING = "padding."
NO_DIGEST = "0" * _DIGEST_LENGTH


@dataclass(frozen=True)
class Container:
    """The description and the arrays in one file."""

    description: dict[str, Any]
    arrays: Mapping[str, np.ndarray]
    digest: str  # of the header, which holds the checksums of the arrays


class Entry(NamedTuple):
    """Where an array lies in the data after the header, and what it is."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    begin: int
    end: int


class Header(NamedTuple):
    """A header that was checked."""

    description: dict[str, Any]
    entries: dict[str, Entry]  # with the padding between arrays
    digest: str


def checksums(arrays: Mapping[str, np.ndarray]) -> dict[str, str]:
    """The SHA-256 of each array."""

    def digest(array: np.ndarray) -> str:
        return hashlib.sha256(_bytes(array)).hexdigest()

    with ThreadPoolExecutor() as pool:
        return dict(zip(arrays, pool.map(digest, arrays.values()), strict=True))


def blank_checksums(arrays: Mapping[str, np.ndarray]) -> dict[str, str]:
    """Placeholders as long as real checksums, for `size_of`."""
    return dict.fromkeys(arrays, NO_DIGEST)


def write(file: BinaryIO, description: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> str:
    """Write a container and return its digest."""
    entries, pieces = _laid_out(arrays)
    header = _header(NO_DIGEST, description, entries)
    digest = hashlib.sha256(header).hexdigest()
    header = header[:_DIGEST_AT] + digest.encode() + header[_DIGEST_AT + _DIGEST_LENGTH :]
    file.write(len(header).to_bytes(LENGTH, "little") + header)
    for piece in pieces:
        file.write(_bytes(piece))
    return digest


def size_of(description: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> int:
    """The number of bytes that `write` writes."""
    entries, pieces = _laid_out(arrays)
    return LENGTH + len(_header(NO_DIGEST, description, entries)) + sum(piece.nbytes for piece in pieces)


def _laid_out(arrays: Mapping[str, np.ndarray]) -> tuple[dict[str, Any], list[np.ndarray]]:
    """The entries of the header, and the arrays with the padding between them."""
    entries: dict[str, Any] = {}
    pieces: list[np.ndarray] = []
    at = 0
    for name, array in arrays.items():
        gap = -array.nbytes % LINE
        padding = np.zeros(gap, np.uint8)
        for label, piece in ((name, array), (f"{_PADDING}{len(entries)}", padding))[: 2 if gap else 1]:
            dtype = _NAMES[piece.dtype.newbyteorder("<")]
            entries[label] = {"dtype": dtype, "shape": list(piece.shape), "data_offsets": [at, at + piece.nbytes]}
            pieces.append(piece)
            at += piece.nbytes
    return entries, pieces


def _bytes(array: np.ndarray) -> memoryview:
    return memoryview(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


def _header(digest: str, description: Mapping[str, Any], entries: Mapping[str, Any]) -> bytes:
    metadata = {"sha256": digest, "sparsedp": _json(description)}
    text = _json({"__metadata__": metadata, **entries}).encode()
    text += b" " * (-(LENGTH + len(text)) % LINE)
    if len(text) > LARGEST_HEADER:
        raise FormatError(f"the header would have {len(text)} bytes, more than {LARGEST_HEADER}")
    return text


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def read(path: Path) -> Container:
    """The container in a file, with its arrays mapped: time and memory do not depend on its size."""
    if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would wait for its writer
        raise FormatError("a release must be a regular file")
    with naming(path), path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        start = file.read(LENGTH)
        length = header_length(start, size)
        header = file.read(length)
        if len(header) != length:
            raise FormatError("the file ends inside its header")
        try:
            mapped = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
        except ValueError:
            raise FormatError("the file was cut off while it was opened") from None
        data = memoryview(mapped)[LENGTH + length :]
    return _parse(header, data)


def from_bytes(content: bytes) -> Container:
    """The container in memory."""
    length = header_length(content[:LENGTH], len(content))
    # NumPy aligns memory only to 16 bytes; blocks should be whole cache lines here as in a file.
    room = np.empty(len(content) - length - LENGTH + LINE, np.uint8)
    skip = -room.__array_interface__["data"][0] % LINE
    data = room[skip : skip + len(content) - length - LENGTH]
    data[:] = np.frombuffer(content, np.uint8, offset=LENGTH + length)
    data.flags.writeable = False
    return _parse(content[LENGTH : LENGTH + length], memoryview(data.data))


def header_length(start: bytes, size: int) -> int:
    """The length of the header of a file of this size, from its first eight bytes."""
    length = int.from_bytes(start, "little")
    whole = LENGTH + length
    if len(start) < LENGTH or not 2 <= length <= LARGEST_HEADER or whole > size or whole % LINE:
        raise FormatError("this is not a sparsedp release, or it is cut off in its header")
    return length


def _parse(header: bytes, data: memoryview) -> Container:
    checked = parse_header(header, len(data))
    arrays: Arrays = {}
    for name, entry in checked.entries.items():
        array = array_of(name, entry, data[entry.begin : entry.end])
        if is_padding(name):
            if np.any(array):
                raise FormatError(f"{name} must be fewer than {LINE} zero bytes")
        else:
            arrays[name] = array
    return Container(checked.description, arrays, checked.digest)


def parse_header(header: bytes, length: int) -> Header:
    """What a header says of the `length` bytes that follow it, without looking at them."""
    digest = header[_DIGEST_AT : _DIGEST_AT + _DIGEST_LENGTH]
    blank = header[:_DIGEST_AT] + NO_DIGEST.encode() + header[_DIGEST_AT + _DIGEST_LENGTH :]
    if hashlib.sha256(blank).hexdigest().encode() != digest:
        raise FormatError("the header fails its checksum: the file is damaged, or is not a sparsedp release")
    entries = parse_json(header)
    metadata = entries.pop("__metadata__", None)
    if not isinstance(metadata, dict) or set(metadata) != {"sha256", "sparsedp"}:
        raise FormatError("this safetensors file is not a sparsedp release")
    description = parse_json(metadata["sparsedp"])
    checked: dict[str, Entry] = {}
    at = 0
    for name, entry in entries.items():
        checked[name] = _entry(name, entry, length, at)
        at = checked[name].end
    if at != length:
        raise FormatError(
            f"the arrays have {at} bytes, but the file holds {length} after its header: it is cut off, or too long"
        )
    return Header(description, checked, digest.decode())


def is_padding(name: str) -> bool:
    """Whether an entry is padding between arrays."""
    return name.startswith(_PADDING)


def _entry(name: str, entry: Any, length: int, at: int) -> Entry:
    """The entry of an array that must begin at `at`."""
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise FormatError(f"array {name!r} must have dtype, shape and data_offsets")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in _DTYPES:
        raise FormatError(f"array {name!r} must be of one of the types {', '.join(_DTYPES)}, got {dtype!r:.40}")
    if not _is_sizes(shape) or not 1 <= len(shape) <= 2:
        raise FormatError(f"array {name!r} must have one or two dimensions, got {shape!r:.40}")
    end = at + math.prod(shape) * _DTYPES[dtype].itemsize
    if not _is_sizes(offsets) or offsets != [at, end]:
        raise FormatError(f"array {name!r} must lie at {at}..{end}, got {offsets!r:.60}")
    if end > length:
        raise FormatError(f"array {name!r} must end at {end}, but there are {length} bytes: the file is cut off")
    if is_padding(name) and end - at >= LINE:
        raise FormatError(f"{name} must be fewer than {LINE} zero bytes")
    if not is_padding(name) and at % LINE:
        raise FormatError(f"array {name!r} must begin at a multiple of {LINE}, got {at}")
    if dtype == "BOOL" and end - at > LINE:
        raise FormatError(f"array {name!r} must hold at most {LINE} truth values")
    return Entry(_DTYPES[dtype], tuple(shape), at, end)


def array_of(name: str, entry: Entry, data: memoryview) -> np.ndarray:
    """The array of an entry, from its own bytes."""
    if entry.dtype == np.bool_ and max(data, default=0) > 1:
        raise FormatError(f"array {name!r} must hold at most {LINE} truth values")
    if entry.end == entry.begin:
        return np.empty(entry.shape, entry.dtype)
    return np.frombuffer(data, entry.dtype).reshape(entry.shape)


def _is_sizes(value: Any) -> bool:
    return isinstance(value, list) and all(type(size) is int and 0 <= size < 1 << 48 for size in value)


def parse_json(text: str | bytes) -> dict[str, Any]:
    """A JSON object without duplicate names and without NaN or infinities."""
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_number)
    except (ValueError, TypeError, RecursionError) as error:
        raise FormatError(f"the header is not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise FormatError("the header must be a JSON object")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        raise ValueError("a name occurs twice")
    return result


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is not a number")


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Errors of the operating system name the caller's path, not a temporary one."""
    try:
        yield
    except OSError as error:
        if error.errno is not None:  # otherwise it is our own message, which has the path in it
            error.filename = str(path)
            del error.filename2  # as None it would be shown: 'a' -> None
        raise


def hidden_beside(path: Path) -> Path:
    """A new name next to a path, for an incomplete file; short enough even beside the longest of
    names.
    """
    return path.with_name(f".{path.name[:50]}.{secrets.token_hex(8)}.tmp")


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file that appears under its name, whole and on disk, only if the block ends without an
    exception.
    """
    temporary = hidden_beside(path)
    check_replaceable(path)
    with naming(path):
        # An interrupt may come between any two steps, so the file is created inside the block that
        # removes it.
        try:
            # Permissions follow the umask: the file is meant to be shared.
            with open(temporary, "xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
            sync_directory(path.parent)
        except BaseException:
            with suppress(OSError):  # the first error is the one to report
                temporary.unlink()
            raise


def check_replaceable(path: Path) -> None:
    """`FileExistsError` for what is there and is no file: a device would become one. Nor is an address
    one.
    """
    check_local(path)
    if path.exists() and not path.is_file():
        what = "a directory" if path.is_dir() else "a device or pipe"
        raise FileExistsError(f"{path} is {what}; name a file")


def is_begun_by_us(path: Path) -> bool:
    """Whether a file begins as `write` begins every file, even if it is damaged further on."""
    with path.open("rb") as file:
        start = file.read(LENGTH + len(_BEGIN.format(NO_DIGEST)))[LENGTH:].decode("ascii", "replace")
    return start == _BEGIN.format(start[_DIGEST_AT : _DIGEST_AT + _DIGEST_LENGTH])


def check_writable(path: Path) -> None:
    """`OSError` unless a file can be created where `replacing` would create one."""
    check_replaceable(path)
    probe = hidden_beside(path)
    with naming(path):
        try:
            open(probe, "xb").close()
            probe.unlink()
        except BaseException:
            with suppress(OSError):
                probe.unlink()
            raise


def sync_directory(directory: Path) -> None:
    """Make changes of the names in a directory survive a crash."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
