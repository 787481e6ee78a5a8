"""Write `smac/` with SMAC3 2.x: python make_smac.py, in an environment with smac."""

import json
import shutil
import tempfile
from pathlib import Path

from ConfigSpace import Categorical, ConfigurationSpace, EqualsCondition, Float, Integer
from smac import HyperparameterOptimizationFacade, Scenario


def train(config, seed: int = 0) -> float:
    if config["batch_size"] > 60:
        raise RuntimeError("no memory")
    return min(1.0, abs(config["learning_rate"] - 0.01) + 0.1)


if __name__ == "__main__":
    space = ConfigurationSpace(name="cnn", seed=0)
    optimizer, momentum = Categorical("optimizer", ["adam", "sgd"]), Float("momentum", (0.0, 0.99))
    space.add(Float("learning_rate", (1e-5, 1.0), log=True), Integer("batch_size", (4, 64)), optimizer, momentum)
    space.add(EqualsCondition(momentum, optimizer, "sgd"))
    target = Path(__file__).parent / "smac"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    with tempfile.TemporaryDirectory() as folder:
        scenario = Scenario(space, name="run", output_directory=Path(folder), n_trials=16, seed=3, deterministic=True, crash_cost=1.0)  # fmt: skip
        facade = HyperparameterOptimizationFacade(scenario, train, overwrite=True, logging_level=30)
        facade.optimize()
        for name in ("runhistory.json", "configspace.json", "scenario.json"):
            shutil.copy(scenario.output_directory / name, target / name)
    history = json.loads((target / "runhistory.json").read_text())
    for entry in history["data"]:
        if "traceback" in entry["additional_info"]:  # names folders of the machine
            entry["additional_info"]["traceback"] = entry["additional_info"]["traceback"].splitlines()[-1]
    (target / "runhistory.json").write_text(json.dumps(history, indent=2) + "\n")
    about = json.loads((target / "scenario.json").read_text())
    about = {key: value for key, value in about.items() if key not in ("output_directory", "_meta")}
    (target / "scenario.json").write_text(json.dumps(about, indent=1) + "\n")
