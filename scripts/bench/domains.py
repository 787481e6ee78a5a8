"""Does `suggest` notice a dataset from a domain that the history does not hold?

For each domain in turn, models are trained without it and without one of three parts of the other domains' groups. The domain's
datasets are then far queries, that part's are near ones; the score is the distance to the nearest dataset that the model
saw, over the limit below which `suggest` calls a dataset typical. AUROC: how often a far query scores above a near one.

    OMP_NUM_THREADS=1 python scripts/bench/domains.py HISTORY_WITH_IMAGES.h5 --models FOLDER [--extractor NAME] [--out FILE.json]
"""

import argparse
import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.transfer.novelty import judge_novelty
from warmstart.history_store.history import History
from warmstart.metafeat.handcrafted import centre_and_scale, scaled
from warmstart.metafeat.index import DatasetIndex
from warmstart.training.evaluation.fold_models import FoldModels, make_folder, shared_features
from warmstart.training.siamese.settings import preset

DOMAINS = {
    "characters": "chars74k_ gujarati hiragana hoda kmnist mnist omniglot oracle printed_digits semeion sklearn usps",
    "people": "face_mask fer lfw olivetti smiles hand_letters naruto sign_digits",
    "medical": "blood_cell breast chest covid wbc",
    "surfaces": "concrete dtd10 magnetic neu potato",
    "drawn": "animal_silhouettes fruit_outlines shapes4 pacs_sketch pacs_cartoon pokemon5 fashion_mnist",
}
"""Beginnings of names; all others are photos of things."""
PARTS = 3
FAR, SIBLING = 0, PARTS + 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("history", type=Path)
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--extractor")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    make_folder(options.models)
    settings = preset("modern", extractor=options.extractor)
    with History.open(options.history) as history:
        names = [info.name for info in history.datasets if info.fraction == 1.0]
        groups = np.array([info.group for info in history.datasets if info.fraction == 1.0])
        domains = np.array([domain_of(name) for name in names])
        features = np.array([*shared_features(history, names, folder=options.models).queries.values()])
        rows = {}
        for domain in sorted(set(domains)):
            parts = deal(domains == domain, groups)
            models = FoldModels(history, names, parts, settings, folder=options.models)
            points = {part: models.embeddings(frozenset({FAR, SIBLING, part})) for part in range(1, PARTS + 1)}
            seen = {part: features[~np.isin(parts, (FAR, SIBLING, part))] for part in points}
            plain = {part: scaled(features, *centre_and_scale(seen[part])) for part in points}
            rows[str(domain)] = {
                "far": int((parts == FAR).sum()),
                "learned": auroc(points, parts, groups),
                "handcrafted": auroc(plain, parts, groups),
            }
            print(f"{domain:12}" + "".join(f"{value:16.3f}" for value in rows[str(domain)].values()), flush=True)
    mean = {name: float(np.mean([row[name] for row in rows.values()])) for name in ("learned", "handcrafted")}
    print(f"{'mean':12}{'':16}" + "".join(f"{value:16.3f}" for value in mean.values()))
    if options.out:
        found = {"extractor": settings.spec.extractor, "datasets": len(names), "domains": rows, "mean": mean}
        options.out.write_text(json.dumps(found, indent=1) + "\n")


def domain_of(name: str) -> str:
    """Name the domain of a dataset."""
    return next((domain for domain, begins in DOMAINS.items() if name.startswith(tuple(begins.split()))), "photos")


def deal(far: NDArray[np.bool_], groups: NDArray[np.str_]) -> NDArray[np.int64]:
    """Number the domain 0, the groups of other domains 1..3, and siblings of the domain that lie elsewhere 4."""
    parts = np.zeros(len(far), dtype=np.int64)
    rest = sorted(set(groups[~far]) - set(groups[far]))
    order = np.random.default_rng(0).permutation(len(rest))
    number = {rest[group]: place % PARTS + 1 for place, group in enumerate(order)}
    parts[~far] = [number.get(group, SIBLING) for group in groups[~far]]
    return parts


def auroc(points: dict[int, NDArray[np.float64]], parts: NDArray[np.int64], groups: NDArray[np.str_]) -> float:
    """Compare the scores of far and near queries of every model."""
    won = []
    for part, place in points.items():
        seen = ~np.isin(parts, (FAR, SIBLING, part))
        known = place[seen]
        numbers = np.unique(groups[seen], return_inverse=True)[1]
        index = DatasetIndex(known.astype(np.float32))
        limit = judge_novelty(0.0, index.nearest_of_another_group(np.arange(len(known)), numbers)).limit
        score = np.array([index.nearest(point, 1)[1][0] for point in place]) / limit
        far, near = score[parts == FAR], score[parts == part]
        won.append((far[:, None] > near).ravel() + 0.5 * (far[:, None] == near).ravel())
    return float(np.concatenate(won).mean())


if __name__ == "__main__":
    main()
