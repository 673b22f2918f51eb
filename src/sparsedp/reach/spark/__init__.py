"""Tables in Spark, public as `sparsedp.spark`: rows → building (releases) → lookups."""

from .building import plan, release
from .lookups import lookup

__all__ = ["lookup", "plan", "release"]
