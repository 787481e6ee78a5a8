"""Write `keras_tuner/` with Keras Tuner: python make_keras_tuner.py, in an environment with it."""

import json
import shutil
import tempfile
from pathlib import Path

import keras_tuner


class Search(keras_tuner.RandomSearch):
    """A search whose trials report a curve of their own."""

    def run_trial(self, trial, *_args, **_kwargs):
        """Return an accuracy for each of three epochs; some trials raise."""
        values = trial.hyperparameters
        rate = values.Float("lr", 1e-4, 1e-1, sampling="log")
        units = values.Int("units", 32, 128, step=32)
        kind = values.Choice("optimizer", ["adam", "sgd"])
        if kind == "sgd":
            values.Float("momentum", 0.0, 0.9)
        if units == 128:
            raise keras_tuner.errors.FailedTrialError
        return [{"val_accuracy": min(0.9, 0.5 + rate + 0.1 * epoch)} for epoch in range(3)][-1]


if __name__ == "__main__":
    target = Path(__file__).parent / "keras_tuner"
    shutil.rmtree(target, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        search = Search(objective=keras_tuner.Objective("val_accuracy", "max"), max_trials=8, seed=1, directory=folder, project_name="digits", max_consecutive_failed_trials=9)  # fmt: skip
        search.search()
        for path in sorted(Path(folder).rglob("*.json")):
            to = target / path.relative_to(folder)
            to.parent.mkdir(parents=True, exist_ok=True)
            content = json.loads(path.read_text())
            if content.get("message"):  # a traceback names folders of the machine
                content["message"] = content["message"].splitlines()[-1]
            to.write_text(json.dumps(content) + "\n")
