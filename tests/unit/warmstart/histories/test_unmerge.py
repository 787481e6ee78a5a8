"""A merged bundle can be taken out again, and what a suggestion would stumble over is told and mended."""

import histories
import numpy as np

from warmstart.histories.bundle import bundle_history
from warmstart.histories.merge import merge_files
from warmstart.history_store.bundle.file import Bundle, write_bundle
from warmstart.history_store.bundle.records import Embedding, dataset_id, embedding_line
from warmstart.history_store.history import History
from warmstart.history_store.records import Evaluation
from warmstart.locations import shipped_model
from warmstart.metafeat.model_file import read_header

CONFIGS = histories.configs(4)


def history_of(path, runs):
    with History.create(path, histories.space_json()) as made:
        for name in dict.fromkeys(run.dataset for run in runs):
            made.add_dataset(histories.info(name, fingerprint=f"content:{name}", licence="CC0"))
        made.extend(runs)
        return bundle_history(made).bundle, made.id[:12]


def run(name, config, error):
    return Evaluation(name, CONFIGS[config], error, seed=0, origin="collect/a")


def content(path):
    with History.open(path) as history:
        return history.datasets, histories.plain(history.evaluations()), history.get_result("merged")


def test_a_bundle_is_taken_out_by_its_file_or_its_contributor(tmp_path, cli):
    own, path = tmp_path / "own.h5", tmp_path / "h.h5"
    history_of(own, [run("ants", 0, 0.3)])
    first, _ = history_of(tmp_path / "a.h5", [run("bees", 1, 0.2)])
    second, by = history_of(tmp_path / "b.h5", [run("ants", 2, 0.4), run("bees", 2, 0.5), run("cars", 3, 0.1)])
    files = [write_bundle(bundle, tmp_path / f"{number}.gz") for number, bundle in enumerate((first, second))]
    for bundle in (str(files[1]), by):
        path.write_bytes(own.read_bytes())
        merge_files(path, [files[0]])
        before = content(path)
        merge_files(path, [files[1]])
        assert content(path) != before
        removed = cli("history", "remove", path, "--bundle", bundle, "--yes", "--format", "json")
        assert (removed.code, removed.json()["n_evaluations"]) == (0, 3), removed.err
        assert content(path) == before
    assert "expected a bundle that was merged" in cli("history", "remove", path, "--bundle", by, "--yes").err


def test_an_embedding_of_another_length_is_refused_told_and_mended(tmp_path, cli):
    own, header = tmp_path / "own.h5", read_header(shipped_model())
    bundle, _ = history_of(own, [run("ants", 0, 0.3)])
    record = Embedding(
        dataset_id(histories.info("ants", fingerprint="content:ants")), header.hash, np.ones(7, np.float32)
    )
    file = write_bundle(Bundle(bundle.lines | {embedding_line(record)}), tmp_path / "x.gz")
    refused = cli("history", "merge", own, file)
    assert refused.code == 3
    assert "expected embeddings of 256 numbers" in refused.err
    with History.open(own, write=True) as history:
        history.set_embeddings(header.hash, {"ants": np.ones(7, np.float32)})
    told = cli("history", "verify", own)
    assert (told.code, "got some of 7 numbers" in told.err) == (4, True)
    assert cli("history", "verify", own, "--restore").code == 0
    assert cli("history", "verify", own).code == 0
