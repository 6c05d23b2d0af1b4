"""Learning rate schedules, with torch's names, options and formulas.

Call `step()` after the optimizer's: it sets the "lr" of the optimizer's groups for the next epoch, or batch. Most
schedules multiply the current rate by a factor, so that several can act on one optimizer. `LambdaLR`, `OneCycleLR`,
`CyclicLR` and `CosineAnnealingWarmRestarts` set rates of their own.
"""

from ...namespaces import serve
from .base import LRScheduler as LRScheduler
from .compound import *  # noqa: F403
from .cycles import *  # noqa: F403
from .factors import *  # noqa: F403
from .plateau import *  # noqa: F403

serve(__name__)
