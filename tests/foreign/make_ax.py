"""Write `ax/experiment.json` with Ax: python make_ax.py, in an environment with ax-platform."""

import shutil
from pathlib import Path

from ax.service.ax_client import AxClient, ObjectiveProperties

if __name__ == "__main__":
    target = Path(__file__).parent / "ax"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    client = AxClient(random_seed=0, verbose_logging=False)
    client.create_experiment(
        name="digits",
        parameters=[
            {"name": "lr", "type": "range", "bounds": [1e-5, 0.1], "log_scale": True},
            {"name": "batch_size", "type": "choice", "values": [16, 32, 64], "is_ordered": True, "value_type": "int"},
        ],
        objectives={"accuracy": ObjectiveProperties(minimize=False)},
    )
    for number in range(5):
        parameters, index = client.get_next_trial()
        if number == 2:
            client.log_trial_failure(index)
        elif number < 4:
            client.complete_trial(index, raw_data={"accuracy": (0.5 + parameters["lr"], 0.0)})
    client.save_to_json_file(str(target / "experiment.json"))
