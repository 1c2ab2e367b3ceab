"""EM on a histogram beside scikit-learn's on all points: for `benchmarks.partition`."""

import time
import warnings
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from estimator.core.partition.em import em, histogram, mean_log_likelihood, spread_start
from estimator.core.partition.mixture import LEAST_VARIANCE, Mixture

Array = NDArray[np.float64]

# So tight that both are where they converge to, and not on the way.
_TOLERANCE: Final = 1e-8
_ROUNDS: Final = 3


def _theirs(x: Array, start: Mixture, tolerance: float) -> Mixture:
    model = GaussianMixture(
        len(start.means),
        tol=tolerance,
        max_iter=200,
        reg_covar=LEAST_VARIANCE,
        weights_init=start.weights,
        means_init=start.means[:, None],
        precisions_init=1.0 / start.sds[:, None, None] ** 2,
        init_params="random_from_data",
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(x[:, None])
    return Mixture.sorted(
        model.weights_, model.means_[:, 0], np.sqrt(model.covariances_.reshape(-1))
    )


def compared(samples: dict[str, Array]) -> dict[str, Any]:
    """Compare what both find from the same start, and the CPU that it takes.

    Parameters
    ----------
    samples : dict
        Log work by name; a name begins with its number of classes.

    Returns
    -------
    dict
        By sample: the largest differences of means and deviations, in deviations, and of weights;
        the log likelihood a point that is lost; the ratio of CPU at EM's usual tolerance.
    """
    rows = {}
    for name, x in samples.items():
        points = histogram(x)
        start = spread_start(points, int(name.split()[0]), np.random.default_rng(0))
        ours, theirs = em(points, start, tolerance=_TOLERANCE), _theirs(x, start, _TOLERANCE)
        exact = theirs.log_density(x).mean()
        spent: dict[str, list[float]] = {"ours": [], "theirs": []}
        for _ in range(_ROUNDS):
            begun = time.thread_time()
            em(histogram(x), start)
            between = time.thread_time()
            _theirs(x, start, 1e-3)
            spent["ours"].append(between - begun)
            spent["theirs"].append(time.thread_time() - between)
        rows[name] = {
            "means": float((np.abs(ours.means - theirs.means) / theirs.sds).max()),
            "deviations": float(np.abs(ours.sds / theirs.sds - 1.0).max()),
            "weights": float(np.abs(ours.weights - theirs.weights).max()),
            "lost likelihood": float(exact - ours.log_density(x).mean()),
            "CPU, times less": min(spent["theirs"]) / min(spent["ours"]),
        }
        assert mean_log_likelihood(ours, points) >= mean_log_likelihood(start, points)
    return {"tables": {"EM on 256 bins beside scikit-learn's on all points": rows}}
