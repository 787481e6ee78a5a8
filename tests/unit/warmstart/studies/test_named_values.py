"""Numbers by name in what scripts print."""

import math
import time

import pytest

from warmstart.studies.objectives.metric import Metric
from warmstart.studies.objectives.metric_reader import MetricReader
from warmstart.studies.objectives.named_values import NamedValues, named_value


@pytest.mark.parametrize(
    ("line", "name", "value", "percent"),
    [
        ("val_acc 71.2%", "val_acc", 71.2, True),
        ("Val Acc = 0.712 (best 0.73)", "val_acc", 0.712, False),
        ('{"epoch": 2, "val_acc": 0.5}', "val_acc", 0.5, False),
        ("{'eval_loss': 0.55, 'eval_accuracy': 0.91, 'epoch': 3.0}", "eval_accuracy", 0.91, False),  # transformers
        ("63/63 - 1s - 9ms/step - accuracy: 0.9 - val_accuracy: 0.95 - val_loss: .2", "accuracy", 0.9, False),  # Keras
        ("│      val_acc              │    0.712345      │", "val_acc", 0.712345, False),  # Lightning
        ("Test: [10/20]  Loss:  0.5 (0.6)  Acc@1:  71.2 ( 70.1)  Acc@5: 90", "Acc@1", 70.1, False),  # timm: the average
        ("accuracy 0.95 (0.02)", "accuracy", 0.95, False),
        ("Test set: Average loss: 0.0313, Accuracy: 9894/10000 (99%)", "accuracy", 98.94, True),  # PyTorch's example
        ("Accuracy of the network on the 10000 test images: 56 %", "accuracy", 56.0, True),  # PyTorch's tutorial
        ("val_acc = tensor(0.7123, device='cuda:0')", "val_acc", 0.7123, False),
        ("val_loss: -1.5e-3", "val_loss", -0.0015, False),
        ("val_acc nan", "val_acc", math.nan, False),
        ("val_acc 0.6, then val_acc 0.7", "val_acc", 0.7, False),
        ("The accuracy on the test set is 0.97.", "accuracy", 0.97, False),
        ("INFO 10:00:00,123 - val_acc - 0.712", "val_acc", 0.712, False),
        ("val_acc ----> 0.712", "val_acc", 0.712, False),
        ("val_acc [%]: 71.2 | loss: 1", "val_acc", 71.2, True),
        ("acc in %: 0.9", "acc", 0.9, True),
    ],
)
def test_a_value_is_found_by_its_name(line, name, value, percent):
    found = named_value(line, name)
    assert (found.number, found.is_percent) == (pytest.approx(value, nan_ok=True), percent)


@pytest.mark.parametrize(
    "line",
    [
        *("best_val_acc: 0.9", "val_acc_top5: 0.9", "val_acc-95: 0.9", "val_acc", "0.9 val_acc"),
        *("val_acc: high", "val_acc 1.2.3", "val_acc: 0,91", "val_acc 71,2 %", "val_acc: [0.1, 0.9]", "val_acc (1, 2)"),
        *("val_acc:  40%|████      | 4/10", "val_acc: 0%|          | 0/10", "loss val_acc: 100% ━━━━━ 4/4"),
    ],
)
def test_other_names_and_numbers_are_not_the_value(line):
    assert named_value(line, "val_acc") is None


def read_all(values, *lines):
    return [values.read(line) for line in lines]


def test_each_line_is_a_report_at_the_next_step_or_at_its_epoch():
    values = NamedValues("acc", is_score=True)
    assert read_all(values, "acc 0.5", "loss 3", "acc 0.5", "epoch 7: acc 0.6", "epoch 7: acc 0.7") == [
        *((1, 0.5), None, (2, 0.5), (7, 0.6), None)
    ]
    assert values.latest == 0.7


def test_a_progress_bar_reports_when_its_value_changes():
    values = NamedValues("acc", is_score=True)
    bar = " {0}%|###   | 1/3 [00:01<00:02, 1.0it/s, acc={1}]"
    lines = (bar.format(10, 0.5), bar.format(20, 0.5), bar.format(30, 0.6))
    assert read_all(values, *lines) == [(1, 0.5), None, (2, 0.6)]


def test_an_average_over_some_of_the_batches_is_no_report():
    values = NamedValues("Acc@1", is_score=True)
    assert read_all(values, "Test: [0/9] Acc@1: 60 (60)", "Test: [9/9] Acc@1: 80 (70)") == [None, (1, 0.7)]


@pytest.mark.parametrize(
    ("text", "name", "pairs"),
    [
        ("epoch  train_loss  accuracy  time\n0      2.301       0.412     00:03\n1      1.3      0.6     00:03", "accuracy", [(0, 0.412), (1, 0.6)]),
        ("  epoch    valid_acc     dur\n-------  -----------  ------\n      1      0.6150   0.0361", "valid_acc", [(1, 0.615)]),
        ("epoch,loss,val_acc\n1,0.5,0.6", "val_acc", [(1, 0.6)]),
        ("| Epoch | Val Acc |\n|---|---|\n| 3/9 | 75% |", "val_acc", [(3, 0.75)]),
        ("   classes   top1_acc   top5_acc: 100%|██████| 1/1\n      all       0.85      0.99", "top1_acc", [(1, 0.85)]),
        ("class  f1    n\ncat  0.9   3\nall  0.8  6\ndog  0.7  3", "f1", [(1, 0.8)]),
        ("precision  recall  f1   support\n 0  1.00  0.9  0.9  3\naccuracy  0.9  3", "f1", []),
    ],
)  # fmt: skip
def test_a_column_of_a_table_is_read(text, name, pairs):
    reader = MetricReader(Metric(f"named:{name}", maximize=True))
    assert [pair for line in text.splitlines() if (pair := reader.read(line))] == pairs


def test_per_cent_is_recognised_by_its_sign_by_its_size_and_by_earlier_trials():
    values = NamedValues("acc", is_score=True)
    assert [pair[1] for pair in read_all(values, "acc 75", "acc 0.5")] == [0.75, 0.005]
    assert NamedValues("acc", is_score=True, was_percent=True).read("acc 0.5") == (1, 0.005)
    assert NamedValues("acc", is_score=True).read("acc 0.5%") == (1, 0.005)
    assert NamedValues("loss", is_score=False).read("loss 71.2") == (1, 71.2)
    with pytest.raises(ValueError, match=r"expected acc of at most 1, as in the trials before, got 71\.2"):
        NamedValues("acc", is_score=True, was_percent=False).read("acc 71.2")


@pytest.mark.parametrize("line", ["acc" + " " * 10**6, "acc of" * 10**4, "1" * 10**6 + "acc", "epoch" + " " * 10**6])
def test_a_long_line_takes_no_longer_than_its_length(line):
    began = time.process_time()
    assert NamedValues("acc", is_score=True).read(line) is None
    assert time.process_time() - began < 5


def test_each_match_of_a_pattern_is_a_report():
    reader = MetricReader(Metric("regex:acc=([0-9.]+)", maximize=True))
    lines = "acc=0.5", "loss 3", "acc=0.7", "acc=...", '{"step": 4, "score": 0.6}', "acc=0.8"
    assert [reader.read(line) for line in lines] == [(1, 0.5), None, (2, 0.7), None, (4, 0.6), None]


@pytest.mark.parametrize(
    ("lines", "option", "name"),
    [
        (["epoch 1 loss 0.5 acc 0.7", "val acc: 0.6", "best_val_acc 0.9", "done 3"], "score", "val_acc"),
        (["Train Loss: 0.5", "Test set: Average loss: 0.3, Accuracy: 90/100 (90%)"], "score", "Accuracy"),
        (["{'eval_loss': 0.5, 'epoch': 1}", "{'train_loss': 0.4}"], "loss", "eval_loss"),
        (["RMSE = 3.2", "R2 = 0.4"], "score", "R2"),
        (["epoch  train_loss  val_acc", "0  2.3  0.4"], "score", "val_acc"),
    ],
)
def test_the_metric_of_unseen_data_is_guessed_from_what_is_printed(lines, option, name):
    reader = MetricReader(Metric())
    reader.read("epoch 3 of 10 took 2.5 s")
    assert reader.guess is None
    for line in lines:
        reader.read(line)
    assert (reader.guess.option, reader.guess.name) == (option, name)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("m.json", '{"val": {"acc": 0.5}}', 0.5),
        ("m.jsonl", '{"val": {"acc": 0.4}}\n{"val": {"acc": 0.5}}\n{"time": 3}\n', 0.5),
        ("results.csv", "epoch,  val.acc, loss\n1, 0.4, 2\n2, 0.5, 1\n3, , 1\n", 0.5),
        ("results.csv", "epoch,val.acc\n", "expected 'val.acc' in "),
        ("results.csv", "epoch,loss\n1,2\n", "as CSV with that column, got"),
        ("results.csv", 'epoch,val.acc\n1,"0.5\n', "got quotes that stay open"),
        ("m.json", "", "as JSON, got"),
    ],
)
def test_a_metric_in_a_file(tmp_path, name, text, value):
    path = tmp_path / name
    reader = MetricReader(Metric(f"file:{path}:val.acc", maximize=True), path)
    path.write_text("\ufeff" + text, encoding="utf-8")
    result = reader.result()
    assert result.get("error") == value if isinstance(value, float) else value in result["note"]


def test_a_reader_gives_the_last_value_as_the_result():
    reader = MetricReader(Metric("named:val_acc", maximize=True))
    assert reader.read("epoch 1: val_acc 50%") == (1, 0.5)
    reader.read("epoch 2: val_acc 75%")
    assert reader.result() == {"val_acc": 0.75, "error": 0.25}
    in_percent = MetricReader(Metric("named:val_acc", maximize=True, scale="percent"))
    assert in_percent.read("val_acc 75%") == (1, 75)
    assert in_percent.read("val_acc 50") == (2, 50)
    assert in_percent.result() == {"val_acc": 50, "error": 0.5}
    nested = MetricReader(Metric("named:val.acc", maximize=True))
    assert nested.read('{"epoch": 3, "val": {"acc": 0.5}}') == (3, 0.5)


def test_a_failure_to_find_a_name_shows_the_line_that_has_it():
    reader = MetricReader(Metric("named:val_acc", maximize=True))
    assert [reader.read("val_acc: 0,91"), reader.read("done")] == [None, None]
    assert reader.result()["note"] == "expected 'val_acc' and its value in what it prints, got 'val_acc: 0,91'"


def test_the_same_value_after_the_head_of_an_epoch_is_another_report():
    values = NamedValues("val_accuracy", is_score=True)
    bar = "12/12 ━━━━━━━━━━━━━━━━━━━━ 0s 5ms/step - accuracy: 0.9 - val_accuracy: 0.75"
    reports = [values.read(line) for line in ("Epoch 1/2", bar, bar, "Epoch 2/2", bar)]
    assert reports == [None, (1, 0.75), None, None, (2, 0.75)]
