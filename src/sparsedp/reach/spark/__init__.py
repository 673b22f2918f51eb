"""Tables in Spark, public as `sparsedp.spark`: rows → building (releases) → lookups → functions."""

from .building import plan, release
from .functions import register
from .lookups import lookup

__all__ = ["lookup", "plan", "register", "release"]
