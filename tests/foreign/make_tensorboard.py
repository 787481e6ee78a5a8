"""Write `tensorboard/` with torch's SummaryWriter: python make_tensorboard.py, in an environment with tensorboard."""

import shutil
from pathlib import Path

from torch.utils.tensorboard import SummaryWriter

if __name__ == "__main__":
    target = Path(__file__).parent / "tensorboard"
    shutil.rmtree(target, ignore_errors=True)
    for number, rate in enumerate((0.1, 0.01, 0.001)):
        with SummaryWriter(str(target / f"run{number}")) as writer:
            for epoch in range(3):
                writer.add_scalar("val/acc", 0.5 + 0.1 * epoch + 0.01 * number, epoch)
            settings = {"lr": rate, "optimizer": "sgd", "nesterov": number == 1, "batch_size": 32}
            writer.add_hparams(settings, {"hparam/best": 0.9}, run_name="settings")
