"""Sample the posterior of the PyMC example and save it as `posterior.nc`. Needs PyMC.

python tests/models/save_posterior.py
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

if __name__ == "__main__":
    import arviz

    example = import_module("candidates_from_pymc")
    sampled = example.sample_posterior(*example.patients(np.random.default_rng(20), 20))
    arviz.InferenceData(posterior=sampled.posterior).to_netcdf(str(Path(__file__).with_name("posterior.nc")))
