"""Labelled rows: the accuracy of the expansion at a public point, and the cost of lies.

``python -m benchmarks labelled_rows`` prints both tables of docs/explanation/labelled-rows.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import gammaln, logsumexp
from scipy.stats import kendalltau

from troth import models, strategies
from troth.core.information import line_log_pmi, log_pmi
from troth.mechanisms.line import on_grid, rank_share

PILOT = 100
"""Rows of the public pilot at whose mode the second expansion is taken."""


def exact_log_evidence(model: Any, data: Any, rng: np.random.Generator) -> float:
    """Return the log evidence of a logistic regression, by quadrature up to two features and otherwise by sampling.

    Both are centred at the mode. Quadrature is a product of Gauss-Hermite rules with 24 nodes. The importance samples, at
    least 400 and more for fewer rows, come from a multivariate t distribution with 5 degrees of freedom.
    """
    z, y = data
    size = len(model.mean)
    at_mode = model.expanded_at_mode(data)
    precision = at_mode._prior_precision + at_mode.reduction.curvature(at_mode.summary(data))
    root = np.linalg.cholesky(np.linalg.inv(precision))
    scaled, log_weight = _nodes(size) if size <= 2 else _draws(size, max(400, 400_000 // len(y)), rng)
    theta = np.array(at_mode.point) + scaled @ root.T
    eta = z @ theta.T
    log_likelihood = y @ eta - np.logaddexp(0.0, eta).sum(axis=0)
    prior = model._prior_precision
    away = theta - np.array(model.mean)
    log_prior = 0.5 * np.linalg.slogdet(prior)[1] - 0.5 * np.einsum("ij,jk,ik->i", away, prior, away)
    log_prior -= size / 2 * np.log(2 * np.pi)
    return float(logsumexp(log_likelihood + log_prior + log_weight) + np.log(np.diagonal(root)).sum())


def _nodes(size: int, each: int = 24) -> tuple[np.ndarray, np.ndarray]:
    """Return the nodes of a Gauss-Hermite product rule, and log weights for integrals over Lebesgue measure."""
    x, w = hermegauss(each)
    grid = np.stack(np.meshgrid(*[x] * size, indexing="ij"), axis=-1).reshape(-1, size)
    weights = np.stack(np.meshgrid(*[np.log(w)] * size, indexing="ij"), axis=-1).reshape(-1, size)
    return grid, (weights + grid**2 / 2).sum(axis=1)


def _draws(size: int, draws: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return draws from a standard t distribution with 5 degrees of freedom, and their log weights."""
    heavy = np.sqrt(rng.chisquare(5, size=(draws, 1)) / 5)
    scaled = rng.standard_normal((draws, size)) / heavy
    log_density = gammaln((5 + size) / 2) - gammaln(2.5) - size / 2 * np.log(5 * np.pi)
    log_density = log_density - (5 + size) / 2 * np.log1p((scaled**2).sum(axis=1) / 5)
    return scaled, -log_density - np.log(draws)


def one_line(
    rng: np.random.Generator, d: int, rows: int, scale: float, decoys: int
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the log PMI of a report with the real peers and each decoy: exact, and by each expansion."""
    model = models.LogisticRegression(mean=[0.0] * d, precision=1 / scale**2)
    theta = model.draw_parameters(rng)
    own = model.draw_data(rng, theta, rows)
    features = rng.standard_normal((3 * rows, d))
    line = [model.draw_data(rng, theta, features)]
    line += [model.draw_data(rng, model.draw_parameters(rng), features) for _ in range(decoys)]
    pilot = model.expanded_at_mode(model.draw_data(rng, theta, PILOT))

    def together(one: Any, two: Any) -> Any:
        return np.concatenate([one[0], two[0]]), np.concatenate([one[1], two[1]])

    alone = exact_log_evidence(model, own, rng)
    exact = [exact_log_evidence(model, together(own, peers), rng) for peers in line]
    exact = [joint - alone - exact_log_evidence(model, peers, rng) for joint, peers in zip(exact, line, strict=True)]
    expanded = [
        np.array([float(log_pmi(each, each.statistics(own), each.statistics(peers))) for peers in line])
        for each in (model, pilot)
    ]
    return np.array(exact), expanded


def accuracy(
    dimensions: tuple[int, ...] = (1, 2, 3, 4, 5),
    sizes: tuple[int, ...] = (10, 100, 1000),
    scales: tuple[float, ...] = (0.5, 1.0, 2.0),
    decoys: int = 19,
) -> Iterator[tuple[Any, ...]]:
    """Yield d, rows, prior sd, mean absolute log PMI, and each expansion's error, Kendall's τ and pay error.

    These are means over 24 rounds, or over 8 if ``rows * d`` is 3,000 or more.
    """
    for d in dimensions:
        for rows in sizes:
            for scale in scales:
                rng = np.random.default_rng((d, rows, int(10 * scale)))
                trials = []
                for _ in range(24 if rows * d < 3000 else 8):
                    exact, expanded = one_line(rng, d, rows, scale, decoys)
                    share = place_share(exact)
                    measured = [
                        (abs(v[0] - exact[0]), kendalltau(v, exact)[0], place_share(v) - share) for v in expanded
                    ]
                    trials.append([abs(exact[0]), *measured[0], *measured[1]])
                table = np.array(trials)
                means = table.mean(axis=0)
                means[[3, 6]] = np.abs(table[:, [3, 6]]).mean(axis=0)
                yield d, rows, scale, *means


def place_share(v: np.ndarray, rivals: int = 4) -> float:
    """Return the share that the first member of a line earns by its place."""
    above, tied = float((v[1:] > v[0]).sum()), float((v[1:] == v[0]).sum())
    return float(rank_share(np.array(above), np.array(tied), len(v) - 1, rivals))


def family(name: str, d: int) -> Any:
    """Return a model whose linear predictors have a standard deviation of about √2, or of 0.7 for counts."""
    if name == "softmax":
        return models.SoftmaxRegression(mean=[0.0] * (3 * d), precision=d / 2, classes=3)
    if name == "poisson":
        return models.PoissonRegression(mean=[0.0] * d, precision=2.0 * d)
    return models.LogisticRegression(mean=[0.0] * d, precision=d / 2)


LIES = (
    strategies.Replicate(),
    strategies.Withhold(),
    strategies.Flip(),
    strategies.ShuffleLabels(),
    strategies.SwapFeatures(),
    strategies.LabelWithOwnModel(),
    strategies.CopyPublicLabels(),
    strategies.SendEasyRows(),
    strategies.FabricateFromPrior(),
    strategies.Nothing(),
)


def losses(
    name: str, d: int, rows: int, simulations: int = 200, decoys: int = 49, limit: bool = False
) -> dict[str, tuple[float, float]]:
    """Return each lie's mean loss in shares of the cap under the line-up with its standard error, and the honest share.

    There are ten providers. Decoys are drawn from the likelihood with the peers' features, or from the normal limit.
    """
    model = family(name, d)
    lies = [lie for lie in LIES if lie.suits_model(model)]
    rng = np.random.default_rng((d, rows, len(name)))
    shares = np.empty((simulations, 1 + len(lies)))
    for k in range(simulations):
        theta = model.draw_parameters(rng)
        data = model.draw_data(rng, theta, rows)
        features = rng.standard_normal((9 * rows, d))
        peers = model.statistics(model.draw_data(rng, theta, features))
        others = model.draw_parameters(rng, (decoys,))
        sampler = model if limit else model.with_features(features)
        line = sampler.draw_statistics(rng, others, model.design(peers)[None])
        own = np.stack([model.statistics(data), *(model.statistics(lie.change_rows(rng, model, data)) for lie in lies)])
        members = np.broadcast_to(np.concatenate([peers[None], line])[:, None], (1 + decoys, *own.shape))
        v = on_grid(line_log_pmi(model, own, members))
        above, tied = (v[1:] > v[0]).sum(axis=0), (v[1:] == v[0]).sum(axis=0)
        shares[k] = rank_share(above.astype(float), tied.astype(float), decoys, 4)
    lost = shares[:, :1] - shares[:, 1:]
    error = lost.std(axis=0, ddof=1) / np.sqrt(simulations)
    table = {lie.name: (float(m), float(e)) for lie, m, e in zip(lies, lost.mean(axis=0), error, strict=True)}
    return {"truth earns": (float(shares[:, 0].mean()), float(shares[:, 0].std() / np.sqrt(simulations))), **table}


def main() -> None:
    """Print both tables."""
    print("d  rows  sd   |log PMI|  error  tau  pay error   error  tau  pay error (second: point from 100 pilot rows)")
    for d, rows, scale, size, *rest in accuracy():
        print(f"{d}  {rows:>4}  {scale:>3}  {size:9.3f}  " + "  ".join(f"{x:.3f}" for x in rest), flush=True)
    for limit in (False, True):
        print("decoys from the " + ("normal limit" if limit else "likelihood, with the peers' features"))
        for name in ("logistic", "softmax", "poisson"):
            for d in (5, 20):
                for rows in (50, 200, 1000):
                    cells = losses(name, d, rows, simulations=100 if rows == 1000 else 200, limit=limit)
                    text = "; ".join(f"{lie} {m:+.3f} ± {e:.3f}" for lie, (m, e) in cells.items())
                    print(f"{name}, d = {d}, {rows} rows: {text}", flush=True)


if __name__ == "__main__":
    main()
