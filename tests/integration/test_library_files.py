"""Files that the libraries themselves write, read by ours; where a library is not installed its test is left out."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from warmstart.histories.import_runs import ImportRequest, import_source
from warmstart.history_store.errors import DataError, LabelError
from warmstart.history_store.history import History
from warmstart.history_store.readers import open_images
from warmstart.spaces import space_text

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.filterwarnings("default")]


@pytest.fixture
def pictures():
    rng = np.random.default_rng(0)
    return [Image.fromarray(rng.integers(0, 256, (20, 20, 3), dtype=np.uint8)) for _ in range(30)]


LABELS = [number % 3 for number in range(30)]


def check(source, n=30):
    assert len(source) == n
    assert tuple(source.class_names) == ("a", "b", "c") or len(source.class_names) == 3
    assert source.read(np.arange(4), size=16).images.shape == (4, 16, 16, 3)


def test_hugging_face_datasets(pictures, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    datasets = pytest.importorskip("datasets")
    named = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["a", "b", "c"])})
    made = datasets.Dataset.from_dict({"image": pictures, "label": LABELS}, features=named)
    made.save_to_disk(str(tmp_path / "disk"))
    made.to_parquet(str(tmp_path / "x.parquet"))
    both = datasets.DatasetDict({"train": made.select(range(20)), "test": made.select(range(20, 30))})
    both.save_to_disk(str(tmp_path / "both"))
    for name in ("disk", "x.parquet", "both"):
        check(open_images(tmp_path / name))
    without = datasets.Dataset.from_dict({"image": pictures, "label": [-1] * 30}, features=named)
    without.to_parquet(str(tmp_path / "none.parquet"))
    with pytest.raises(LabelError, match="unlabelled"):
        open_images(tmp_path / "none.parquet")


def test_webdataset(pictures, tmp_path):
    webdataset = pytest.importorskip("webdataset")
    with webdataset.TarWriter(str(tmp_path / "x.tar")) as tar:
        for number, (picture, label) in enumerate(zip(pictures, LABELS, strict=True)):
            tar.write({"__key__": f"s{number:04}", "png": picture, "cls": label})
    check(open_images(tmp_path / "x.tar"))


def imported(folder: Path, source: Path, name: str) -> list[float]:
    space = folder / "space.yaml"
    space.write_text(f"{name}: {{log: [1e-6, 1.0]}}\n")
    path = folder / "h.h5"
    History.create(path, space_text(str(space))).close()
    for added in (2, 0):  # the second time nothing is new
        plan = import_source(path, str(source), ImportRequest(dataset="flowers"))
        assert not isinstance(plan, dict)
        assert len(plan.evaluations) == added
    with History.open(path) as history:
        assert all(run.curve for run in history.evaluations())
        return [run.error for run in history.evaluations()]


def test_lightning(tmp_path):
    lightning = pytest.importorskip("lightning.pytorch")
    for rate in (1e-3, 1e-2):
        log = lightning.loggers.CSVLogger(str(tmp_path / "logs"), name="exp")
        log.log_hyperparams({"learning_rate": rate})
        for step in range(3):
            log.log_metrics({"val_acc": 0.5 + 0.1 * step}, step=step)
            log.save()
        log.finalize("success")
    assert imported(tmp_path, tmp_path / "logs" / "exp", "learning_rate") == pytest.approx([0.3, 0.3])


def test_mlflow(tmp_path):
    mlflow = pytest.importorskip("mlflow")
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path / 'mlflow.db'}")
    mlflow.set_experiment("flowers")
    for rate in (1e-3, 1e-2):
        with mlflow.start_run():
            mlflow.log_param("learning_rate", rate)
            for step in range(3):
                mlflow.log_metric("val_accuracy", 0.5 + 0.1 * step, step=step)
    assert imported(tmp_path, tmp_path / "mlflow.db", "learning_rate") == pytest.approx([0.3, 0.3])


def test_timm(tmp_path):
    summary = pytest.importorskip("timm.utils.summary")
    for rate in (0.01, 0.1):
        folder = tmp_path / "train" / f"run{rate}"
        folder.mkdir(parents=True)
        (folder / "args.yaml").write_text(f"lr: {rate}\nmodel: resnet18\nepochs: 3\n")
        for epoch in range(3):
            values = {"loss": 1.0, "top1": 50.0 + 10 * epoch}
            summary.update_summary(epoch, {"loss": 1.0}, values, folder / "summary.csv", write_header=epoch == 0)
    assert imported(tmp_path, tmp_path / "train", "lr") == pytest.approx([0.3, 0.3])


def test_hugging_face_trainer(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    transformers = pytest.importorskip("transformers")
    for rate in (1e-3, 1e-2):
        state = transformers.TrainerState(epoch=2.0, global_step=4, max_steps=4, num_train_epochs=2)
        state.log_history = [{"step": step, "epoch": step / 2, "eval_accuracy": 0.5 + step / 20} for step in (2, 4)]
        state.log_history.insert(0, {"step": 1, "learning_rate": rate, "loss": 1.0})
        (tmp_path / "runs" / f"lr{rate}").mkdir(parents=True)
        state.save_to_json(str(tmp_path / "runs" / f"lr{rate}" / "trainer_state.json"))
    assert imported(tmp_path, tmp_path / "runs", "learning_rate") == pytest.approx([0.3, 0.3])


def test_weights_and_biases_offline(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_SILENT", "true")
    wandb = pytest.importorskip("wandb")
    run = wandb.init(project="flowers", config={"learning_rate": 0.1}, mode="offline", dir=str(tmp_path))
    run.log({"val_accuracy": 0.5})
    run.finish()
    exported = [{"config": dict(run.config), "summary": {"val_accuracy": 0.7}, "state": "finished"}]
    (tmp_path / "runs.json").write_text(json.dumps(exported))
    (tmp_path / "space.yaml").write_text("learning_rate: {log: [1e-6, 1.0]}\n")
    History.create(tmp_path / "h.h5", space_text(str(tmp_path / "space.yaml"))).close()
    with pytest.raises(DataError, match="wandb sync"):
        import_source(tmp_path / "h.h5", str(tmp_path / "wandb"), ImportRequest(dataset="flowers"))
    plan = import_source(tmp_path / "h.h5", str(tmp_path / "runs.json"), ImportRequest(dataset="flowers"))
    assert not isinstance(plan, dict)
    assert [each.error for each in plan.evaluations] == pytest.approx([0.3])
