"""Write `ray/` with Ray Tune 2.5x: python make_ray.py, in an environment with ray[tune].

Six trials: one raises, some are stopped early by ASHA. Pickles, event files and lines that name the machine are taken out.
"""

import json
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import ray
from ray import tune


def train(config: dict) -> None:
    if config["batch_size"] == 16 and config["optimizer"]["name"] == "sgd":
        raise RuntimeError("out of luck")
    for step in range(3):
        error = 0.5 / (step + 1) + config["optimizer"]["lr"]
        tune.report({"val_error": error, "accuracy": 1.0 - error, "nested": {"f1": 0.5}})


if __name__ == "__main__":
    os.environ["RAY_AIR_NEW_OUTPUT"] = "0"
    target = Path(__file__).parent / "ray"
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    np.random.seed(1)  # noqa: NPY002 - Ray's own searcher draws from the global generator
    space = {
        "optimizer": {"lr": tune.loguniform(1e-4, 1e-1), "name": tune.choice(["adam", "sgd"])},
        "batch_size": tune.choice([8, 16]),
        "epochs": 3,
        "layers": tune.randint(1, 5),
    }
    with tempfile.TemporaryDirectory() as folder:
        tuner = tune.Tuner(
            train,
            param_space=space,
            tune_config=tune.TuneConfig(
                metric="val_error",
                mode="min",
                num_samples=10,
                max_concurrent_trials=1,
                scheduler=tune.schedulers.ASHAScheduler(max_t=3, grace_period=1, reduction_factor=2),
            ),
            run_config=tune.RunConfig(name="study", storage_path=folder),
        )
        tuner.fit()
        shutil.rmtree(target, ignore_errors=True)
        for trial in sorted(Path(folder, "study").iterdir()):
            if not trial.is_dir():
                continue
            kept = target / trial.name
            kept.mkdir(parents=True)
            for name in ("params.json", "result.json", "error.txt"):
                if (trial / name).exists():
                    lines = (trial / name).read_text().splitlines()
                    if name == "error.txt":
                        lines = lines[:1]
                    elif name == "result.json":
                        rows = [json.loads(line) for line in lines]
                        lines = [
                            json.dumps({k: v for k, v in row.items() if k not in ("hostname", "node_ip", "pid")})
                            for row in rows
                        ]
                    (kept / name).write_text("\n".join(lines) + "\n" * bool(lines))
