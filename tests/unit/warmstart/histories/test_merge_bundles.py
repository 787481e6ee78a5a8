"""Merging as an algebra, on real bundles of small histories; what contradicts, what does not fit, what is never lost."""

import errno
import math
import tempfile
from collections.abc import Sequence
from pathlib import Path

import histories
import numpy as np
import pytest

from warmstart.histories.add import DatasetCard, add_source
from warmstart.histories.bundle import bundle_history
from warmstart.histories.merge import carry_out, merge_files, plan_merge, quarantine_of
from warmstart.histories.merged import read_merged
from warmstart.history_store.bundle.file import Bundle, read_bundle, write_bundle
from warmstart.history_store.bundle.records import Features, dataset_id, features_line
from warmstart.history_store.errors import DataError, StorageFullError
from warmstart.history_store.history import History
from warmstart.history_store.records import DatasetInfo, Evaluation, Status
from warmstart.history_store.space import dump_space
from warmstart.history_store.verify import verify
from warmstart.metafeat.handcrafted import FEATURES
from warmstart.suggestions.query import open_path

CONFIGS = histories.configs(4)


def about(name: str, **changes: object) -> DatasetInfo:
    return histories.info(name, fingerprint=f"content:{name}", licence="CC0", **changes)


def history_of(path: Path, runs: Sequence[Evaluation], **named: str) -> History:
    """A history of somebody; `named` are names of theirs for datasets that all know."""
    made = History.create(path, histories.space_json())
    for name in dict.fromkeys(run.dataset for run in runs):
        made.add_dataset(DatasetInfo(**{**_fields(about(name)), "name": named.get(name, name)}))
    made.extend([Evaluation(**{**_fields(run), "dataset": named.get(run.dataset, run.dataset)}) for run in runs])
    return made


def _fields(record: object) -> dict[str, object]:
    return {key: getattr(record, key) for key in record.__slots__}  # type: ignore[attr-defined]


def bundled(runs: Sequence[Evaluation], **named: str) -> Bundle:
    with tempfile.TemporaryDirectory() as folder, history_of(Path(folder) / "h.h5", runs, **named) as made:
        return bundle_history(made).bundle


def merged(path: Path, *bundles: Bundle) -> History:
    """A history with the bundles merged one after the other."""
    history = History.open(path, write=True) if path.exists() else History.create(path, histories.space_json())
    for bundle in bundles:
        carry_out(history, plan_merge(history, bundle))
    return history


def state(history: History) -> tuple[object, ...]:
    """All that answers and all that is kept."""
    results = {key: history.get_result(key) for key in ("merged", "features")}
    errors = np.nan_to_num(history.errors, nan=-1).tolist()
    runs = histories.plain(history.evaluations())
    return history.datasets, history.configs, runs, errors, results, bundle_history(history).bundle.lines


def run(name: str, config: int, error: float, **more: object) -> Evaluation:
    return Evaluation(name, CONFIGS[config], error, **{"origin": "collect/a", **more})  # type: ignore[arg-type]


def test_merging_is_associative_commutative_and_idempotent():
    own = [run("ants", 0, 0.5, seed=0), run("bees", 1, 0.1)]
    one = [run("ants", 0, 0.1, seed=0), run("ants", 1, 0.11, seed=1, curve=((10, 0.11),)), run("cars", 3, 0.9, seed=0)]
    two = [run("ants", 0, 0.5, seed=0), run("cars", 3, 0.1, seed=0), run("bees", 1, 0.1)]
    three = [run("cars", 3, 0.5, seed=0), run("cars", 3, 0.5), run("ants", 1, 0.9, seed=1, curve=((10, 0.9),))]
    check_algebra([own, one, two, three])


def check_algebra(parts: list[list[Evaluation]]) -> None:
    """Merge three bundles into a history in many ways, and compare all that answers and all that is kept."""
    own, *others = parts
    a, b, c = (bundled(runs) for runs in others)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        with history_of(place / "mine.h5", own) as mine:
            mine.compact(path=place / "empty.h5")
        found = []
        with History.create(place / "bc.h5", histories.space_json()) as between:
            carry_out(between, plan_merge(between, b | c))
            bc = bundle_history(between).bundle  # what a third person made of the two
        for number, steps in enumerate(([a, b, c], [c, a, b], [a | b, c], [a, bc], [c, c, b, a, a], [bc, a, bc, b])):
            copy = place / f"{number}.h5"
            copy.write_bytes((place / "empty.h5").read_bytes())
            with merged(copy, *steps) as history:
                found.append(state(history))
            assert verify(copy).ok
        for each in found[1:]:
            assert each == found[0]
        with History.open(place / "0.h5") as history:
            own_lines = bundle_history(History.open(place / "empty.h5")).bundle
            assert bundle_history(history).bundle == own_lines | a | b | c  # nothing is lost, nothing is made up
            kept = histories.plain([e for e in history.evaluations() if "(from " not in e.origin])
            assert kept == histories.plain(own)


def test_the_command_line_merges_in_any_order(tmp_path, cli):
    parts = [[run("ants", 0, 0.1, seed=0)], [run("ants", 0, 0.4, seed=0), run("bees", 1, 0.2)], [run("bees", 1, 0.2)]]
    files = [str(write_bundle(bundled(runs), tmp_path)) for runs in parts]
    with history_of(tmp_path / "own.h5", [run("cars", 2, 0.3)]) as own:
        own.compact(path=tmp_path / "start.h5")
    found = set()
    for number, order in enumerate((files, files[::-1])):
        path = tmp_path / f"{number}.h5"
        path.write_bytes((tmp_path / "start.h5").read_bytes())
        if number % 2:
            for one in (*order, order[0]):
                done = cli("history", "merge", str(path), one)
                assert done.code == 0, done.err
        else:
            assert cli("history", "merge", str(path), *order, "--format", "json").code == 0
        out = cli("history", "bundle", str(path), "--out", str(tmp_path / f"{number}.txt"), "--format", "json")
        found.add((out.json()["sha256"], (tmp_path / f"{number}.txt").read_bytes()))
    assert len(found) == 1
    again = cli("history", "merge", str(tmp_path / "0.h5"), *files, "--format", "json").json()
    assert again["new_records"] == 0


def test_what_contradicts_is_kept_and_the_rule_answers(tmp_path):
    low, high = bundled([run("ants", 0, 0.1, seed=0)]), bundled([run("ants", 0, 0.4, seed=0)])
    with merged(tmp_path / "two.h5", low, high) as history:
        assert history.errors[0].tolist() == [0.4]  # of two the worse
        (found,) = plan_merge(history, Bundle(frozenset())).contradictions
        assert sorted(found["errors"].values()) == [0.1, 0.4]
        assert bundle_history(history).bundle == low | high
    middle = bundled([run("ants", 0, 0.2, seed=1)])
    with merged(tmp_path / "two.h5", middle) as history:
        assert history.errors[0].tolist() == [0.2]  # of three the middle one
    with history_of(tmp_path / "own.h5", [run("ants", 0, 0.9, seed=5)]) as own:
        carry_out(own, plan_merge(own, low | high | middle))
        assert own.errors[0].tolist() == [0.9]  # your own before all
        (found,) = plan_merge(own, Bundle(frozenset())).contradictions
        assert found["answers"] == ["yours"]
        assert set(read_merged(own).aside.values()) == {
            f"contradicts: you measured 0.9 where it says {error}" for error in (0.1, 0.4, 0.2)
        }


def test_repetitions_within_the_noise_of_seeds_are_averaged(tmp_path):
    parts = [bundled([run("ants", 0, error, seed=seed)]) for seed, error in enumerate((0.20, 0.22, 0.24))]
    with merged(tmp_path / "h.h5", *parts) as history:
        assert history.errors[0, 0] == pytest.approx(0.22)
        assert not plan_merge(history, Bundle(frozenset())).contradictions


def test_one_dataset_under_two_names_is_one(tmp_path):
    a, b = bundled([run("ants", 0, 0.1)]), bundled([run("ants", 1, 0.2)], ants="Ameisen")
    with merged(tmp_path / "h.h5", a, b) as history:
        assert len(history.names) == 1
        assert history.n_evaluations == 2
    with history_of(tmp_path / "own.h5", [run("ants", 2, 0.3)], ants="mine") as own:
        carry_out(own, plan_merge(own, a | b))
        assert own.names == ("mine",)
        assert own.n_evaluations == 3


def test_failed_runs_and_unknown_seeds_survive(tmp_path):
    runs = [
        Evaluation("ants", CONFIGS[0], math.nan, Status.CRASHED, seed=1, origin="x"),
        Evaluation("ants", CONFIGS[1], 0.9, Status.DIVERGED, duration=0.1 + 0.2, origin="x"),
        run("bees", 1, 0.1 + 0.2, curve=((1, 1.0), (7, 0.1 + 0.2)), seed=2**63 - 1),
    ]
    with merged(tmp_path / "h.h5", bundled(runs)) as history:
        got = [Evaluation(**{**_fields(e), "origin": e.origin.partition(" (from ")[0]}) for e in history.evaluations()]
        assert sorted(histories.plain(got)) == sorted(histories.plain(runs))


def crowd(n: int = 9, c: int = 12) -> tuple[list[Bundle], np.ndarray]:
    """Bundles that agree, of one dataset each."""
    rng = np.random.default_rng(0)
    errors = np.clip(rng.uniform(0.1, 0.9, c) * rng.uniform(0.5, 1.0, (n, 1)) + 0.01 * rng.random((n, c)), 0, 1)
    configs = histories.configs(c)
    runs = [
        [Evaluation(f"d{i}", configs[j], float(errors[i, j]), seed=0, origin="collect/a") for j in range(c)]
        for i in range(n)
    ]
    return [bundled(each) for each in runs], errors


def test_outliers_are_quarantined_with_a_reason_and_can_be_released(tmp_path, cli):
    good, errors = crowd()
    configs = histories.configs(12)
    bad = bundled([Evaluation("bad", configs[j], float(1 - errors[0, j]), seed=0) for j in range(12)])
    path = tmp_path / "h.h5"
    with merged(path, *good) as history:
        before = state(history)[:4]
        assert not quarantine_of(history)
    file = write_bundle(bad, tmp_path / "bad.gz")
    shown = cli("history", "merge", str(path), str(file), "--dry-run")
    assert shown.code == 0
    assert "12 runs" in shown.err
    assert "correlation" in shown.err
    with History.open(path) as history:
        assert state(history)[:4] == before  # a dry run writes nothing
    assert cli("history", "merge", str(path), str(file)).code == 0
    with History.open(path) as history:
        assert state(history)[:4] == before  # nor does what is quarantined answer
        assert bundle_history(history).bundle == Bundle(frozenset().union(*(b.lines for b in (*good, bad))))
    listed = cli("history", "quarantine", str(path), "--format", "json").json()
    assert {each["dataset"] for each in listed["quarantined"]} == {"bad"}
    assert cli("history", "quarantine", str(path), "--release", "nothing").code == 2
    done = cli("history", "quarantine", str(path), "--release", "bad", "--format", "json").json()
    assert (done["released"], done["quarantined"]) == (12, [])
    with merged(path, *good) as history:  # and a merge later does not quarantine it again
        assert "bad" in history.names
        assert not quarantine_of(history)


def test_your_own_runs_are_never_quarantined(tmp_path):
    good, errors = crowd()
    odd = [Evaluation("mine", histories.configs(12)[j], float(1 - errors[0, j]), seed=0) for j in range(12)]
    with history_of(tmp_path / "own.h5", odd) as own:
        carry_out(own, plan_merge(own, Bundle(frozenset().union(*(b.lines for b in good)))))
        assert own.n_runs[own.names.index("mine")] == 12
        assert not quarantine_of(own)


def test_another_space_is_refused_and_nothing_is_written(tmp_path, cli):
    from warmstart.history_store.space import dump_space
    from warmstart.training.workloads.cnn.space import target_space

    file = write_bundle(bundled([run("ants", 0, 0.1)]), tmp_path)
    with History.create(tmp_path / "other.h5", dump_space(target_space("compact"))):
        pass
    before = (tmp_path / "other.h5").read_bytes()
    done = cli("history", "merge", str(tmp_path / "other.h5"), str(file))
    assert done.code == 3
    assert "another space" in done.err
    assert (tmp_path / "other.h5").read_bytes() == before
    with pytest.raises(DataError, match="Merge it into a history of its own"):
        merge_files(tmp_path / "other.h5", [file])


def test_no_place_of_the_machine_is_shared(tmp_path):
    with History.create(tmp_path / "h.h5", histories.space_json()) as history:
        info = histories.info(
            "ants",
            source="/home/bertha/secret/ants",
            what="from /home/bertha/x.csv",
            extra={"left": "C:\\Users\\bertha\\a.jpg"},
        )
        history.add_dataset(info)
        history.append(run("ants", 0, 0.2, origin="import/timm//home/bertha/secret/run"))
        text = bundle_history(history).bundle.to_bytes().decode()
    for word in ("home", "secret", "Users", "bertha"):
        assert word not in text
    assert read_bundle(write_bundle(bundled([run("ants", 0, 0.2)]), tmp_path / "x.txt")).lines


def blank_history(path: Path, runs: Sequence[Evaluation]) -> History:
    """A history that knows datasets by their runs alone, as an import makes it."""
    made = History.create(path, histories.space_json())
    names = dict.fromkeys(run.dataset for run in runs)
    made.extend(runs, datasets=[DatasetInfo(name, name, 0, 0, 0, 0) for name in names])
    return made


def give_images(history: History, name: str, seed: int = 0) -> None:
    pictures = histories.pictures(30, seed=seed)
    file = history.path.parent / f"{name}-{seed}.npz"
    np.savez(file, images=pictures.images, labels=pictures.labels)
    add_source(history, open_path(str(file)), DatasetCard(name, name))


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
def test_a_dataset_whose_images_came_later_is_one_dataset(tmp_path, order):
    with blank_history(tmp_path / "a.h5", [run("ants", 0, 0.1), run("ants", 1, 0.2)]) as a:
        before = bundle_history(a).bundle
        give_images(a, "ants")
        a.append(run("ants", 2, 0.3))
        after = bundle_history(a).bundle
    with blank_history(tmp_path / "b.h5", [run("ants", 3, 0.4)]) as b:
        another = bundle_history(b).bundle  # of somebody who knows it by its name still
    bundles = (before, after, another)
    with merged(tmp_path / "c.h5", *(bundles[i] for i in order)) as history:
        assert history.names == ("ants",)
        assert sorted(history.errors[0].tolist()) == [0.1, 0.2, 0.3, 0.4]
        assert history.n_evaluations == 4
        assert history.dataset("ants").n_images == 30
        assert not plan_merge(history, before | after | another).changes
        found = state(history)
    with merged(tmp_path / "d.h5", before | after | another) as at_once:
        assert state(at_once) == found


@pytest.mark.parametrize(
    "more", [{"origin": "import//home/bertha/runs.csv"}, {"origin": "x" * 300}], ids=["path", "long"]
)
def test_what_comes_back_counts_once(tmp_path, more):
    """Numbers and origins are compared as records have them: a whole number without its point, a file without its folder."""
    from ConfigSpace import ConfigurationSpace

    space = dump_space(ConfigurationSpace({"shift": (-5.0, 5.0)}, seed=0))
    runs = [Evaluation("ants", {"shift": value}, 0.25, **more) for value in (-3.0, 2.0, 0.5)]
    with History.create(tmp_path / "own.h5", space) as own:
        own.add_dataset(about("ants"))
        own.extend(runs)
        lines = bundle_history(own).bundle.lines
        other = Bundle(frozenset(line.replace(f'"by":"{own.id[:12]}"', f'"by":"{"0" * 12}"') for line in lines))
        plan = plan_merge(own, other)
        assert (plan.answering, plan.repeated) == (0, 3)


def test_a_dataset_that_was_removed_stays_away(tmp_path, cli):
    """With what was set aside of it; a bundle that has it brings it again."""
    theirs, others = bundled([run("ants", 0, 0.1), run("bees", 1, 0.2)]), bundled([run("ants", 0, 0.9)])
    history_of(tmp_path / "h.h5", [run("ants", 0, 0.3), run("cars", 0, 0.2)]).close()
    with merged(tmp_path / "h.h5", theirs, others) as history:
        assert any('"error":0.1' in line for line in read_merged(history).lines)
    assert cli("history", "remove", tmp_path / "h.h5", "ants", "--yes").code == 0
    with merged(tmp_path / "h.h5", bundled([run("dogs", 0, 0.1)])) as history:
        assert set(history.names) == {"bees", "cars", "dogs"}
        left = read_merged(history)
        assert not left.aside
        assert not any("ants" in line or '"error":0.1' in line for line in left.lines)
    with merged(tmp_path / "h.h5", others) as history:
        assert [found.error for found in history.evaluations("ants")] == [0.9]


def test_a_terminal_shows_of_how_many_datasets_features_were_computed(tmp_path, cli, monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    with blank_history(tmp_path / "h.h5", [run("ants", 0, 0.1), run("bees", 0, 0.1)]) as made:
        asked = ("history", "bundle", str(made.path), "--out", str(tmp_path / "b.txt"))
        assert "computing features" not in cli(*asked, on_terminal=True).err  # there are no images
        give_images(made, "ants")
        give_images(made, "bees", seed=1)
    asked = (*asked[:3], "--out", str(tmp_path / "c.txt"))
    shown = cli(*asked, on_terminal=True)
    assert shown.code == 0
    assert "computing features" in shown.err
    assert "2/2" in shown.err
    assert "computing features" not in cli(*asked).err
    assert "computing features" not in cli(*asked, "--quiet", on_terminal=True).err


@pytest.mark.parametrize("name", ["bees", "again"])
def test_of_own_twins_the_one_of_the_same_name_gets_the_runs(tmp_path, name):
    with history_of(tmp_path / "mine.h5", [run("bees", 0, 0.5)]) as mine:
        mine.add_dataset(DatasetInfo(**{**_fields(about("bees")), "name": "again"}))
        for bundle in (bundled([run("bees", 1, 0.2)], bees=name), Bundle(frozenset())):
            carry_out(mine, plan_merge(mine, bundle))
            assert mine.evaluations(name)[-1].config == CONFIGS[1]


def test_a_disk_that_fills_up_leaves_no_empty_history_behind(tmp_path, monkeypatch):
    file, written = write_bundle(bundled([run("ants", 0, 0.1)]), tmp_path), []

    def full(call, path):
        written.append(path.name)
        if call == "write" and "new.h5" in written:  # it was made, and is to be filled
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("warmstart.history_store.file.durable.hook", full)
    with pytest.raises(StorageFullError, match=r"new\.h5: expected room to write"):
        merge_files(tmp_path / "new.h5", [file])
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


def test_copied_features_are_found(tmp_path):
    good, errors = crowd()
    like = {f"d{i}": np.random.default_rng(i).normal(size=len(FEATURES)) for i in range(9)} | {"copy": None}
    like["copy"] = like["d0"]
    copy = bundled([Evaluation("copy", histories.configs(12)[j], float(errors[3, j]), seed=0) for j in range(12)])
    lines = {
        features_line(Features(dataset_id(about(name)), 32, vector, 0.1, np.ones(3))) for name, vector in like.items()
    }
    whole = Bundle(frozenset(lines).union(*(b.lines for b in (*good, copy))))
    with merged(tmp_path / "h.h5", whole) as history:
        found = {(each.dataset, each.why) for each in quarantine_of(history)}
        assert len(found) == 1
        assert next(iter(found))[0] in ("copy", "d0")
        assert "meta-features are those of" in next(iter(found))[1]
