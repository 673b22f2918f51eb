"""A release that is served, by its name and its keys."""

from __future__ import annotations

import numpy as np

NAME = "visits.sparsedp"
KEYS = np.arange(40_000)
SECRET = "s3cr3t"
