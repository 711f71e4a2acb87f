"""Learn a model from past days, and replay the known lies on them before a cent is spent."""

from troth.core.past import History, from_rows, from_summaries
from troth.history.backtest import backtest
from troth.history.comparison import ModelComparison, compare_models
from troth.history.findings import Backtest, PastFinding
from troth.history.likelihood import log_marginal
from troth.models.fitting.fitted import Fitted, FittedPrior, FittedProviders

__all__ = [
    "Backtest",
    "Fitted",
    "FittedPrior",
    "FittedProviders",
    "History",
    "ModelComparison",
    "PastFinding",
    "backtest",
    "compare_models",
    "from_rows",
    "from_summaries",
    "log_marginal",
]
