"""The plan of a limited time, and the choice of what is saved."""

import numpy as np
import pytest

from warmstart.bo.space.encoding import Encoding
from warmstart.training.workloads import Sample, SampledDataset, SourceDataset
from warmstart.training.workloads.run_plan import EndedRun, PictureFacts, are_drawn
from warmstart.training.workloads.transfer import Transfer
from warmstart.training.workloads.transfer.members import choose_members, error_interval, votes
from warmstart.training.workloads.transfer.plan import fitting_size


def plan_of(seconds=600.0, count=700, side=300, *, is_drawn=False):
    return Transfer().run_plan(PictureFacts(count, side, is_drawn), seconds=seconds)


def played(plan, seconds, *, picture_seconds=0.025, earlier=(), tuning_s=np.inf):
    """Return the configurations of a call, each of which takes `seconds` of it, or `tuning_s` if there are so many."""
    metrics = {"picture_seconds": picture_seconds}
    runs = {index: EndedRun(0.1, 0.0, is_earlier=True, metrics=metrics) for index in earlier}
    found, left = [], plan.seconds
    while (index := plan.next(runs, left=left)) is not None:
        found.append(plan.configs[index])
        took = min(left, tuning_s) if found[-1]["steps"] else seconds(found[-1])
        left -= took
        runs[index] = EndedRun(0.1, took, is_earlier=False, metrics=metrics)
    return found


def of_size(config):
    return 20.0 * (config["image_size"] / 224) ** 2 * (2 if config["backbone"].endswith("2") else 1)


@pytest.mark.parametrize(
    ("side", "size"), [(None, 128), (28, 128), (128, 128), (150, 160), (177, 160), (180, 224), (3000, 224)]
)
def test_the_size_fits_the_pictures(side, size):
    assert fitting_size(side) == size
    assert plan_of(side=side, is_drawn=True).configs[0]["image_size"] == size


def test_photographs_are_enlarged_for_heads_unless_there_are_too_many():
    few, many = plan_of(side=32), plan_of(side=32, count=12_000)
    assert {config["image_size"] for config in few.configs if not config["steps"]} == {128, 160, 224}
    assert {config["image_size"] for config in few.configs if config["steps"]} == {96, 128}
    assert (few.sample.size, many.sample.size) == (224, 128)
    workload = Transfer()
    for plan in (few, many, plan_of(), plan_of(is_drawn=True)):
        assert all(Encoding(workload.space(workload.plan_space)).fits(plan.configs))


def test_heads_come_first_and_a_fine_tuning_last():
    configs = played(plan_of(), of_size)
    assert (configs[0]["backbone"], configs[0]["image_size"]) == ("tf_efficientnet_lite0", 224)
    *heads, tuned = configs
    assert len(heads) > 3
    assert not any(head["steps"] for head in heads)
    assert sum(map(of_size, heads)) < 0.35 * 600
    assert (tuned["image_size"], tuned["tuned_stages"]) == (224, "all")
    assert tuned["learning_rate"] * tuned["body_lr_multiplier"] == pytest.approx(1e-4)
    again = plan_of()
    known = [again.configs.index(config) for config in configs]
    (other,) = [config for config in played(again, of_size, earlier=known) if config["steps"]]
    assert other["backbone"] == "tf_efficientnet_lite2", "another call trains the other network"


def test_an_hour_trains_both_networks_and_then_ends():
    plan = plan_of(3600.0)
    tuned = [config for config in played(plan, of_size, tuning_s=1200.0) if config["steps"]]
    networks = ["tf_efficientnet_lite0", "tf_efficientnet_lite2"]
    assert [(config["backbone"], config["image_size"]) for config in tuned] == [(name, 224) for name in networks]
    short = played(plan_of(1400.0), of_size, tuning_s=900.0)
    assert [config["backbone"] for config in short if config["steps"]] == networks[:1], "too few steps are left"
    runs = {
        0: EndedRun(0.1, 20.0, is_earlier=False),
        plan.configs.index(tuned[0]): EndedRun(None, 0.0, is_earlier=False),
    }
    assert plan.next(runs, left=3000.0) is None, "it still runs, or failed"


@pytest.mark.parametrize(
    ("seconds", "picture_seconds", "size"),
    [(600.0, 0.025, 224), (100.0, 0.025, 160), (50.0, 0.025, None)],
)
def test_a_fine_tuning_has_steps_enough_or_is_left_out(seconds, picture_seconds, size):
    configs = played(plan_of(seconds), lambda _: 1.0, picture_seconds=picture_seconds)
    assert [config["image_size"] for config in configs if config["steps"]] == ([] if size is None else [size])


def test_drawn_pictures_are_fine_tuned_at_few_pixels_and_not_mirrored():
    tuned = played(plan_of(is_drawn=True), of_size)[-1]
    assert (tuned["steps"] > 0, tuned["image_size"], tuned["random_flip"]) == (True, 128, False)


def test_many_pictures_are_sampled_by_the_time():
    assert plan_of(300.0, 12_000, 160).sample.most < 3000
    assert plan_of(36_000.0, 12_000, 160).sample.most > 12_000
    busy = Transfer().run_plan(PictureFacts(12_000, 160, is_drawn=False), seconds=600.0, core_share=0.5)
    assert busy.sample == plan_of(300.0, 12_000, 160).sample
    assert "all pictures" in plan_of().line


def test_drawings_are_told_from_photographs():
    rng = np.random.default_rng(0)
    pages = np.full((6, 32, 32, 1), 250, np.uint8)
    pages[:, 10:14, 4:28] = 20
    assert are_drawn(pages)
    assert are_drawn(np.repeat(pages, 3, axis=3))
    assert not are_drawn(np.concatenate([pages, pages, 255 - pages], axis=3)), "coloured"
    assert not are_drawn(rng.integers(0, 256, (6, 32, 32, 1), dtype=np.uint8))


def test_a_sample_holds_every_class_and_part_and_is_decoded_once(monkeypatch):
    from warmstart.history_store.readers import open_arrays

    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 256, (200, 16, 16), dtype=np.uint8), [f"c{n % 4}" for n in range(200)]
    whole = SourceDataset(open_arrays(images, labels))
    drawn, all_of_it = SampledDataset(whole, Sample(50, 12)), SampledDataset(whole, Sample(1000, 12))
    assert abs(len(drawn) - 50) <= 2
    assert len(all_of_it) == 200
    for part in ("train", "val", "test"):
        assert set(drawn.labels[drawn.rows(part)]) == {0, 1, 2, 3}
    np.testing.assert_array_equal(whole.labels[drawn.sampled_rows], drawn.labels)
    np.testing.assert_array_equal(drawn.images(12), whole.images(12)[drawn.sampled_rows])
    monkeypatch.setattr(whole, "some_images", None)
    assert drawn.images(8).shape == (len(drawn), 8, 8, 1)
    assert drawn.fingerprint() != all_of_it.fingerprint() != whole.fingerprint()


def answers_of(right, labels, sure, rng):
    """Return answers of two classes of which some are right."""
    chance = np.clip(sure + 0.1 * rng.standard_normal(len(labels)), 0.55, 0.95)
    chance = np.where(right, chance, 1 - chance)
    return np.where(labels[:, None] == np.arange(2), chance[:, None], 1 - chance[:, None])


def test_all_models_join_but_the_clearly_worse_ones():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 300)
    heads = [answers_of(rng.random(300) > 0.2, labels, 0.7, rng) for _ in range(4)]
    bad, good = (answers_of(rng.random(300) > share, labels, 0.9, rng) for share in (0.6, 0.01))
    frozen = [False] * 4
    assert sorted(choose_members(heads, frozen, labels, most=8)) == [0, 1, 2, 3]
    assert len(choose_members(heads, frozen, labels, most=2)) == 2
    assert 4 not in choose_members([*heads, bad], [False] * 5, labels, most=8)
    assert choose_members([heads[0]] * 4, frozen, labels, most=8) == [0], "one where all answer alike"
    assert len(choose_members([heads[0][:50]] * 4, frozen, labels[:50], most=8)) == 4, "too few to tell"
    partly = np.where(np.arange(300)[:, None] < 150, np.nan, good)
    assert choose_members([*heads, partly], [*frozen, True], labels, most=8) == [4], "by the images that both answered"
    like = np.where(np.arange(300)[:, None] < 240, np.nan, heads[1])
    mixed = choose_members([*heads, like], [*frozen, True], labels, most=8)
    assert sorted(mixed) == [0, 1, 2, 3, 4]
    assert votes([False, True, False]) == [1.0, 1.0, 1.0]


def test_the_interval_of_an_error_may_begin_at_0():
    assert error_interval(0, 100)[0] == 0
    low, high = error_interval(10, 100)
    assert 0.05 < low < 0.1 < high < 0.16
    assert error_interval(4, 4)[1] == 1
