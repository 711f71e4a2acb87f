"""Learn a model from past days."""

from troth.history.fit import LatentFit, fit_latent_class
from troth.history.offsets import NormalFit, fit_provider_normal
from troth.history.record import History

__all__ = ["History", "LatentFit", "NormalFit", "fit_latent_class", "fit_provider_normal"]
