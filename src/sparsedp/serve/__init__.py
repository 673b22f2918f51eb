"""Releases over HTTP, and the two pages: a read-only service that holds nothing private.

Uses what a reader of releases uses: releasing, planning, keys. FastAPI and uvicorn come with the
extra `serve`. `app` puts the service together, `running` runs it. What was published is all that it
knows; the keys that people ask for are private, so it neither keeps nor logs them.
"""

from importlib.util import find_spec

from ..errors import MissingDependencyError

if find_spec("fastapi") is None or find_spec("uvicorn") is None:
    raise MissingDependencyError("the service needs FastAPI and uvicorn: pip install 'sparsedp[serve]'")
