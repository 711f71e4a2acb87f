"""Learn a model from past days, and try the known lies on them before a cent is spent."""

from troth.history.arrange import from_rows, from_summaries
from troth.history.backtest import backtest
from troth.history.comparison import ModelComparison, compare_models
from troth.history.findings import Backtest, PastFinding
from troth.history.fit import LatentFit, fit_latent_class
from troth.history.likelihood import log_marginal
from troth.history.offsets import NormalFit, fit_provider_normal
from troth.history.priors import FittedPrior, fit_prior
from troth.history.record import History

__all__ = [
    "Backtest",
    "FittedPrior",
    "History",
    "LatentFit",
    "ModelComparison",
    "NormalFit",
    "PastFinding",
    "backtest",
    "compare_models",
    "fit_latent_class",
    "fit_prior",
    "fit_provider_normal",
    "from_rows",
    "from_summaries",
    "log_marginal",
]
