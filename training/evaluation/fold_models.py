"""Models trained without one part of the datasets each, stored on disk.

The folder holds finished models with their embeddings and unfinished ones with their checkpoint, so an interrupted run
resumes. File names carry a digest of everything that determines the weights, so a run with another history, recipe,
seed or partition never uses them.
"""

import hashlib
import io
import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.errors import StorageError, UsageError
from warmstart.history_store.file.codec import encode_info
from warmstart.history_store.history import History
from warmstart.metafeat.embed import embed_history, stored_sample
from warmstart.metafeat.feature_names import FEATURES
from warmstart.metafeat.files import replace_file
from warmstart.metafeat.handcrafted import handcrafted, query_features
from warmstart.metafeat.model import MetaFeatureModel
from warmstart.training.siamese.from_history import train_from_history
from warmstart.training.siamese.labelled_images import LabelledImages
from warmstart.training.siamese.settings import SiameseSettings, preset

Matrix = NDArray[np.float64]
LeftOut = frozenset[int]
"""Parts that a model was trained without."""


class FoldModels:
    """Models of one partition, trained on first use.

    Args:
        history: open, with images.
        names: `m` datasets of the evaluation.
        parts: `m` numbers of parts, see `warmstart.training.evaluation.protocol.deal`.
        settings: of every training.
        folder: of the files; created if missing.
        seed: of every training.
        device: of torch.
        progress: called with (step, steps, text) of the model in training.

    Raises:
        StorageError: when the folder cannot be created.
    """

    def __init__(
        self,
        history: "History",
        names: Sequence[str],
        parts: NDArray[np.int64],
        settings: SiameseSettings,
        *,
        folder: Path,
        seed: int = 0,
        device: str = "cpu",
        progress: Callable[[int, int, str], None] | None = None,
    ) -> None:
        self.history, self.names, self.parts = history, list(names), parts
        self.settings, self.seed, self.device, self.progress = settings, seed, device, progress
        self.folder = folder
        self._embeddings: dict[LeftOut, Matrix] = {}
        self._features: SharedFeatures | None = None
        make_folder(folder)

    def embeddings(self, left_out: LeftOut) -> Matrix:
        """Return the embeddings of all datasets, `m x p`, by the model trained without the left-out parts.

        Raises:
            ImagesMissingError: when the history has no images of a dataset.
            UsageError: when fewer than two datasets are left for training.
        """
        if left_out not in self._embeddings:
            without = "-".join(str(part) for part in sorted(left_out))
            path = self.folder / f"{self.digest}-without-{without}.npz"
            rows = load_rows(path, self.names)
            if rows is None:
                rows = self._train(left_out, path)
            self._embeddings[left_out] = rows
        return self._embeddings[left_out]

    @property
    def digest(self) -> str:
        """Return 12 hex digits that identify history, settings, seed and partition."""
        identity = [
            history_digest(self.history, self.names),
            self.settings.to_dict(),
            self.seed,
            self.names,
            self.parts.tolist(),
        ]
        return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:12]

    def _train(self, left_out: LeftOut, path: Path) -> Matrix:
        """Train a model, from its checkpoint if there is one; store it and its embeddings."""
        training_names = [
            name for name, part in zip(self.names, self.parts.tolist(), strict=True) if part not in left_out
        ]
        if len(training_names) < 2:
            msg = f"expected at least two datasets to train on with some left out, got {len(training_names)} of {len(self.names)}. Use more folds, a larger history, or methods without training, such as portfolio."
            raise UsageError(msg, param="folds")
        checkpoint, show = path.with_suffix(".checkpoint"), self.progress
        text = f"model without part {' and '.join(str(part + 1) for part in sorted(left_out))}"
        if self.settings.spec.handcrafted and self._features is None:
            self._features = shared_features(self.history, self.names, folder=self.folder)
        trained = train_from_history(
            self.history,
            self.settings,
            seed=self.seed,
            names=training_names,
            held_out=(),
            handcrafted=None if self._features is None else self._features.training,
            checkpoint=checkpoint,
            progress=None if show is None else lambda now: show(now.step, now.steps, text),
            device=self.device,
        )
        # Embeddings come after the model, as their file marks it as finished; the checkpoint goes last.
        trained.model.save(path.with_suffix(".safetensors"))
        queries = None if self._features is None else self._features.queries
        rows = _rows(embed_history(self.history, self.names, trained.model, features=queries), self.names)
        save_rows(path, self.names, rows)
        checkpoint.unlink(missing_ok=True)
        return rows


def history_digest(history: "History", names: Sequence[str]) -> str:
    """Return 12 hex digits of a history's content: two copies of one file may have grown apart."""
    infos = [encode_info(history.dataset(name)) for name in names]
    digest = hashlib.sha256(json.dumps([history.id, history.revision, infos], sort_keys=True).encode())
    digest.update(history.errors.tobytes())
    digest.update(history.failed.tobytes())
    return digest.hexdigest()[:12]


def random_embeddings(
    history: "History", names: Sequence[str], settings: SiameseSettings, *, folder: Path, seed: int
) -> Matrix:
    """Return embeddings of datasets by the untrained network of the settings, cached in the folder.

    Settings whose network starts from features are replaced by `modern` with ADF.
    """
    begins_at_features = settings.spec.extractor in ("handcrafted", "landmarks")
    image_settings = preset("modern", extractor="adf") if begins_at_features else settings
    spec = replace(image_settings.spec, image_size=history.stored_size, handcrafted=False)
    identity = json.dumps([history_digest(history, names), spec.to_dict(), seed], sort_keys=True)
    path = folder / f"{hashlib.sha256(identity.encode()).hexdigest()[:12]}-random.npz"
    rows = load_rows(path, names)
    if rows is None:
        rows = _rows(embed_history(history, names, MetaFeatureModel.random(spec, seed=seed)), names)
        save_rows(path, names, rows)
    return rows


def handcrafted_features(history: "History", names: Sequence[str], *, folder: Path) -> Matrix:
    """Return the handcrafted meta-features of datasets' training images, cached in the folder."""
    path = folder / f"{history_digest(history, names)}-handcrafted.npz"
    table = load_rows(path, names)
    if table is None:
        rows = []
        for name in names:
            stored = history.images(name)
            train = stored.rows("train")
            rows.append(
                handcrafted(
                    np.asarray(stored.array[train]), np.asarray(stored.labels)[train], rng=np.random.default_rng(0)
                )
            )
        table = np.array(rows)
        save_rows(path, names, table)
    return table


@dataclass(frozen=True, slots=True)
class SharedFeatures:
    """Handcrafted features that models of one history share; they cost as much as training a small model.

    Attributes:
        training: by dataset, `k x p` of the training samples.
        queries: by dataset, `p` of the images of its embedding.
    """

    training: Mapping[str, Matrix]
    queries: Mapping[str, Matrix]


def shared_features(history: "History", names: Sequence[str], *, folder: Path) -> SharedFeatures:
    """Return the handcrafted features of training samples and queries, cached in the folder."""
    path = folder / f"{history_digest(history, names)}-samples.npz"
    table = load_rows(path, names)
    if table is None:
        table = np.array([_features_of(history, name).ravel() for name in names])
        save_rows(path, names, table)
    features = table.reshape(len(names), -1, len(FEATURES))
    return SharedFeatures(dict(zip(names, features[:, 1:], strict=True)), dict(zip(names, features[:, 0], strict=True)))


def _features_of(history: "History", name: str) -> Matrix:
    """Compute features of a dataset as a query, and of its samples in training: `(1 + k) x p`."""
    images, labels = stored_sample(history, name)
    stored = history.images(name)
    whole = LabelledImages(stored.array, stored.labels, stored.rows("train"))
    # A fixed generator: names of cached files hold no seed.
    query = query_features(images, labels, rng=np.random.default_rng(0))
    return np.concatenate([query[None], whole.handcrafted_samples()])


def _rows(vectors: Mapping[str, NDArray[np.float32]], names: Sequence[str]) -> Matrix:
    """Stack the vectors of datasets, `m x p`."""
    return np.array([vectors[name] for name in names], dtype=np.float64)


def make_folder(folder: Path) -> None:
    """Create the folder of the models.

    Raises:
        StorageError: when it cannot be created.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        msg = f"{folder}: expected a folder for models, got: {error.strerror}. Choose another with `models`."
        raise StorageError(msg) from error


def save_rows(path: Path, names: Sequence[str], rows: Matrix) -> None:
    """Write one row for each dataset, atomically."""
    buffer = io.BytesIO()
    np.savez(buffer, names=np.array(list(names)), rows=rows)
    replace_file(path, buffer.getvalue())


def load_rows(path: Path, names: Sequence[str]) -> Matrix | None:
    """Read rows of `save_rows` for the same datasets; None when the file is missing or damaged."""
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            stored, rows = file["names"].tolist(), np.asarray(file["rows"], dtype=np.float64)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
    return rows if stored == list(names) and rows.ndim == 2 and np.isfinite(rows).all() else None
