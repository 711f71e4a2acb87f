"""How rows become a summary, so that data can be reduced where it lives.

Counts, sums and Gram matrices are one thing: a row is augmented to a vector z, and products of its entries are added
up over rows. A family says which by its `Reduction`; an engine (a loop over file fragments, Spark, SQL) does the rest.
Four reductions are bundled: `Counts`, `Moments`, `Expansion` and `Expansions`. A family may bring its own.
"""

from troth.core.reductions.counts import Counts
from troth.core.reductions.expansion import Expansion
from troth.core.reductions.expansions import Expansions
from troth.core.reductions.moments import Moments
from troth.core.reductions.reduction import Reduction

__all__ = ["Counts", "Expansion", "Expansions", "Moments", "Reduction"]
