"""Keys as kernels take them: ids, or keys of one column that a kernel hashes as it goes, so that the
ids of many keys are never in memory at once.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from .. import _native
from ..privacy.randomness import Words

Batch: TypeAlias = Words | _native.Keys


def ids_of(batch: Batch) -> Words:
    """The ids of all keys."""
    return batch if isinstance(batch, np.ndarray) else batch.ids()
