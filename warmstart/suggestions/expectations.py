"""Expected errors on a query, from its features and those of the history's datasets."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.transfer.expected_error import DatasetExpectation, ErrorForecaster, fit_forecaster
from warmstart.bo.transfer.strategies import Choice
from warmstart.history_store.file.codec import config_key
from warmstart.history_store.one_thread import one_thread
from warmstart.metafeat.feature_names import FEATURES, LANDMARKS
from warmstart.suggestions.answer import Answer
from warmstart.suggestions.confidence import NO_EXPECTED_ERROR, UNCERTAIN_ERROR, WIDER
from warmstart.suggestions.embedded_history import EmbeddedHistory
from warmstart.suggestions.location import Location
from warmstart.suggestions.other_sizes import MINUTES, after_minutes, side_of

FORECAST_FROM = 500
"""Nearest datasets used to forecast errors: more take seconds and add little."""
_GAINS = ("nn_gain", "centroid_gain", "ridge_gain", "bayes_gain", "edges_gain")
_SIZES = ("log_n", "log_classes", "log_per_class", "class_entropy")
LEAST_SEEN, MOST_SEEN = 32, 224
"""Pixels of a side, to which larger pictures are shrunk; no smaller ones are told apart."""
_FEW = ("ridge_full_64", "ridge_s16_64", "largest_class", "log_classes", "log_n")


def forecaster_of(embedded: EmbeddedHistory, rows: Sequence[int] | NDArray[np.int64]) -> ErrorForecaster | None:
    """Fit a forecast of errors to some rows of a history and their smaller parts, once for the same rows.

    Returns: the forecast; None where too few datasets have features and errors.
    """
    selection = np.asarray(rows, dtype=np.int64)
    return embedded.forecasters.recall(selection, lambda: _fit(embedded, selection.tolist()))


def _fit(embedded: EmbeddedHistory, rows: Sequence[int]) -> ErrorForecaster | None:
    if embedded.references is None or embedded.references.features is None:
        return None
    reference_rows = {name: row for row, name in enumerate(embedded.references.names)}
    described = np.array([row for row in rows if embedded.names[row] in reference_rows], np.int64)
    errors = embedded.errors(described)
    has_errors = ~np.isnan(errors).all(axis=1)
    usable, errors = described[has_errors].tolist(), errors[has_errors]
    if not usable:
        return None
    features = embedded.references.features[[reference_rows[embedded.names[row]] for row in usable]]
    names, about = [embedded.names[row] for row in usable], embedded.about.at(usable)
    groups, n_val, sizes = [embedded.groups[row] for row in usable], [info.n_val for info in about], None
    if embedded.smaller_parts is not None:
        row_of = {name: row for row, name in enumerate(names)}
        parts = embedded.smaller_parts.of(names, embedded.configs)
        features, errors = np.concatenate([features, parts.features]), np.concatenate([errors, parts.errors])
        about = [*about, *(about[row_of[name]] for name in parts.names)]
        groups += [groups[row_of[name]] for name in parts.names]
        n_val += parts.n_val
        sizes = _sizes(features)
    sides, best = np.array([side_of(info) for info in about]), np.full(len(features), np.nan)
    sharp = best.copy()
    if embedded.own_pixels is not None:
        best[: len(names)], sharp[: len(names)] = embedded.own_pixels.of(names)  # of whole datasets
    with one_thread():
        views_of = _views(features, sides, sharp)
        return fit_forecaster(*views_of, errors, groups, n_val=n_val, sizes=sizes, best=best)


def expectation_of(
    forecaster: ErrorForecaster,
    features: NDArray[np.float64],
    *,
    n_val: int | None = None,
    side: float | None = None,
    sharp: float = np.nan,
) -> DatasetExpectation:
    """Return the expected errors of the shared configurations, and of the best, on a dataset with these features.

    Args:
        forecaster: of `forecaster_of`.
        features: of the dataset.
        n_val: its validation images, if known.
        side: pixels of its pictures' shorter side, if known.
        sharp: its error by `LandmarkModel.sharp_error`, if its pictures are large enough.
    """
    wide, narrow = _views(features[None], np.array([np.nan if side is None else side]), np.array([sharp]))
    return forecaster.expect(wide[0], narrow[0], n_val=n_val, size=float(_sizes(features[None])[0]))


def _views(
    features: NDArray[np.float64], sides: NDArray[np.float64], sharp: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the two sets of features; beside landmark features the pixels that a network sees, and the root of the error at the size that fits."""
    wide, narrow = views(features)
    if features.shape[1] != len(LANDMARKS):
        return wide, narrow
    small = 1 - features[:, LANDMARKS.index("ridge_full_64")]
    fitting = np.sqrt(np.where(np.isnan(sharp), small, sharp).clip(0, 1))
    more = np.column_stack([np.log(np.clip(sides, LEAST_SEEN, MOST_SEEN)), fitting])
    return np.hstack([wide, more]), np.hstack([narrow, more])


def _sizes(features: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the numbers of images behind features, `m`; arguments as in `views`."""
    names: Sequence[str] = LANDMARKS if features.shape[1] == len(LANDMARKS) else FEATURES
    return np.exp(features[:, names.index("log_n")])


def views(features: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the wide and the narrow set of features for the forecast.

    Args:
        features: `m x q`, handcrafted or landmark features, which their number tells; see `warmstart.metafeat.embed.feature_names`.

    Returns: all of them and, before handcrafted ones, the errors of the simple classifiers and of a constant answer; these and
        the sizes alone. Of landmark features all, and a few.
    """
    if features.shape[1] == len(LANDMARKS):
        return features, features[:, [LANDMARKS.index(name) for name in _FEW]]
    constant = features[:, [FEATURES.index("largest_class")]]
    gains = features[:, [FEATURES.index(name) for name in _GAINS]]
    best = features[:, [FEATURES.index("best_landmark")]]
    errors = np.hstack([np.clip(1 - constant - gains, 0, 1), 1 - best, 1 - constant])
    sizes = features[:, [FEATURES.index(name) for name in _SIZES]]
    return np.hstack([errors, features]), np.hstack([errors, sizes])


def with_expected_errors(answer: Answer, location: Location, choices: Sequence[Choice]) -> Answer:
    """Add the expected errors of the suggestions, and of the best after a search, where they can be forecast."""
    if not NO_EXPECTED_ERROR.isdisjoint(answer.confidence.reasons):
        return answer
    nearest = location.rows[np.argsort(location.distances, kind="stable")[:FORECAST_FROM]]
    forecaster = None if location.features is None else forecaster_of(location.embedded, np.sort(nearest))
    if forecaster is None or location.features is None:
        return answer
    about = location.summary
    expectation = expectation_of(
        forecaster, location.features, n_val=about.n_val, side=about.side, sharp=location.sharp_error
    )
    if not UNCERTAIN_ERROR.isdisjoint(answer.confidence.reasons):
        expectation = expectation.wider(WIDER)
    expected = expectation.errors()
    rows = [choice.row for choice in choices]
    designs = tuple(
        replace(design, expected_error=expected[row]) for design, row in zip(answer.suggestions, rows, strict=True)
    )
    further_configs = () if answer.plan is None else answer.plan.further_configs
    places = (
        {config_key(config): row for row, config in enumerate(location.embedded.configs)} if further_configs else {}
    )
    rows += [places[config_key(config)] for config in further_configs]
    is_known = location.embedded.own_pixels is not None and not np.isnan(location.sharp_error)
    after = tuple(after_minutes(expected[-1], minutes) for minutes in MINUTES) if is_known else ()
    return replace(
        answer,
        suggestions=designs,
        expected_error=expected[-1],
        expected_after=after,
        expectation=expectation.of(rows),
    )
