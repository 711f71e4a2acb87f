"""Reductions of rows to summaries, so that data can be reduced where it lives.

Counts, sums and Gram matrices have the same structure: a row is mapped to a vector z, and products of its entries are
added up over rows. The `Reduction` of a family defines these; an engine (a loop over file fragments, Spark, SQL) does
the rest. Four reductions are bundled: `Counts`, `Moments`, `Expansion` and `Expansions`. A family may bring its own.
"""

from troth.core.reductions.counts import Counts
from troth.core.reductions.expansion import Expansion
from troth.core.reductions.expansions import Expansions
from troth.core.reductions.moments import Moments
from troth.core.reductions.reduction import Reduction

__all__ = ["Counts", "Expansion", "Expansions", "Moments", "Reduction"]
