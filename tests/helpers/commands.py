"""Commands as separate processes that start within milliseconds: forks of one that has imported
everything.

A new interpreter takes half a second to import what a command needs, and the tests run hundreds of
commands. Here a server without threads imports it once; each command is a fork of it, with its own
streams, folder, environment and exit code. What an interpreter reads when it starts (such as its
encoding) is tested with real interpreters.
"""

from __future__ import annotations

import atexit
import gc
import io
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from contextlib import redirect_stdout, suppress
from functools import cache
from pathlib import Path
from typing import IO, NoReturn

from sparsedp.cli import main

IMPORTED = (
    "duckdb",
    "pyarrow.csv",
    "pyarrow.parquet",
    "matplotlib.pyplot",
    "sparsedp.counting.local",
    "sparsedp.releasing.building",
    "sparsedp.releasing.series",
    "sparsedp.cli.streams",
    "sparsedp.serve.running",
)


class Command:
    """A command that runs; only one runs at a time. With `merged`, messages are in its output, in the
    order in which they were written.
    """

    def __init__(self, *arguments: object, stdin: str | None = None, merged: bool = False) -> None:
        self.arguments = [str(argument) for argument in arguments]
        request = json.dumps({"arguments": self.arguments, "folder": os.getcwd(), "environment": dict(os.environ)})
        printed = _file()
        self._streams = [_file(stdin or ""), printed, printed if merged else _file()]
        self._server = _server()
        with _file(request) as asked:
            socket.send_fds(self._server, [b"?"], [file.fileno() for file in (*self._streams, asked)])
        self.pid = self._answer()

    def _answer(self) -> int:
        line = b""
        while not line.endswith(b"\n"):
            received = self._server.recv(1)
            assert received, "the server of commands is gone"
            line += received
        return int(line)

    def said(self) -> str:
        """What it has written to stderr so far."""
        errors = self._streams[2].fileno()
        return os.pread(errors, os.fstat(errors).st_size, 0).decode(errors="replace")

    def wait(self) -> subprocess.CompletedProcess[str]:
        """How it ended: the exit code, or minus the number of a signal."""
        code = self._answer()
        words = []
        for file in self._streams:
            file.seek(0)
            words.append(file.read().decode(errors="replace"))
        for file in self._streams:
            file.close()
        return subprocess.CompletedProcess(self.arguments, code, *words[1:])


def _file(text: str = "") -> IO[bytes]:
    file = tempfile.TemporaryFile()  # noqa: SIM115  # its owner closes it
    file.write(text.encode())
    file.seek(0)
    return file


@cache
def _server() -> socket.socket:
    """The server of this process; it ends when nothing can send it requests any more."""
    mine, its = socket.socketpair()
    with its:
        server = subprocess.Popen(
            [sys.executable, __file__, str(its.fileno())],
            pass_fds=[its.fileno()],
            stdin=subprocess.DEVNULL,
            cwd="/",
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # a process with threads should not fork
            start_new_session=True,
        )

    def end() -> None:
        mine.close()
        server.wait()

    atexit.register(end)
    return mine


def _serve(asking: socket.socket) -> None:
    for name in IMPORTED:
        __import__(name)
    sys.argv = ["sparsedp", "plan", "--nonzero", "10", "--json"]  # imports what is imported late
    with suppress(SystemExit), redirect_stdout(io.StringIO()):
        main()
    gc.freeze()
    child = 0
    while True:
        byte, descriptors, _, _ = socket.recv_fds(asking, 1, 4)
        if child:
            os.waitpid(child, 0)  # not earlier: a signal sent to its number must not hit another process
        if not byte:
            return
        child = os.fork()
        if child == 0:
            _become(*descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        asking.sendall(b"%d\n" % child)
        ended = os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        assert ended is not None
        code = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
        asking.sendall(b"%d\n" % code)


def _become(stdin: int, stdout: int, stderr: int, asked: int) -> NoReturn:
    """Become the command."""
    for number, descriptor in enumerate((stdin, stdout, stderr)):
        os.dup2(descriptor, number)
        os.close(descriptor)
    with open(asked, encoding="utf-8") as file:
        request = json.load(file)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a server in the background may ignore it
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = ["sparsedp", *request["arguments"]]
    code = 0
    try:
        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else bool(end.code)
    except BaseException:
        traceback.print_exc()
        code = 1
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)  # shutting down a forked interpreter is slow


if __name__ == "__main__":
    sys.path.remove(str(Path(__file__).parent))  # a command must not see the modules of the tests
    _serve(socket.socket(fileno=int(sys.argv[1])))
