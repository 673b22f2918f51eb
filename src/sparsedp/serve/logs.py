"""The log: a JSON object in each line of stderr.

It has the template of a path, never its query, and the number of keys, never the keys: what people
ask for is private. `keys=True` logs both.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
from datetime import datetime, timezone
from typing import IO, Any


class Log:
    """A log on a stream, by default on stderr as it is when a line is written."""

    def __init__(self, stream: IO[str] | None = None, keys: bool = False) -> None:
        self.keys = keys
        self._stream = stream
        self._lock = threading.Lock()

    def write(self, event: str, **facts: Any) -> None:
        """Append a line."""
        now = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        line = json.dumps({"time": now, "event": event, **facts}, ensure_ascii=True, default=str)
        stream = sys.stderr if self._stream is None else self._stream
        with self._lock:
            try:
                stream.write(line + "\n")
                stream.flush()
            except (OSError, ValueError):  # whoever read the log has gone; requests are still answered
                return

    def failure(self, error: BaseException) -> None:
        """An error of the program: its kind, and where it came up. Its message may hold keys."""
        places, trace = [], error.__traceback__
        while trace is not None:
            code = trace.tb_frame.f_code
            places.append(f"{trace.tb_frame.f_globals.get('__name__', '?')}:{trace.tb_lineno} {code.co_name}")
            trace = trace.tb_next
        message = {"message": str(error)} if self.keys else {}
        self.write("failure", error=type(error).__name__, where=places[-8:], **message)


class Forwarded(logging.Handler):
    """What the server logs, without tracebacks."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Append the message."""
        self._log.write("server", level=record.levelname.lower(), message=record.getMessage())
