"""Learn a model from past days."""

from troth.history.fit import LatentFit, fit_latent_class
from troth.history.record import History

__all__ = ["History", "LatentFit", "fit_latent_class"]
