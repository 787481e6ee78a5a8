"""Write `syne_tune/` with Syne Tune: python make_syne_tune.py, in an environment with it."""

import shutil
import sys
import tempfile
from pathlib import Path

SCRIPT = """
import argparse, time
from syne_tune import Reporter
parser = argparse.ArgumentParser()
for name, kind in (("lr", float), ("batch_size", int), ("optimizer", str)):
    parser.add_argument(f"--{name}", type=kind)
parser.add_argument("--st_checkpoint_dir")
args = parser.parse_args()
report = Reporter()
for epoch in range(1, 4):
    if args.batch_size > 60 and epoch == 2:
        raise SystemExit(1)
    time.sleep(0.2)
    report(epoch=epoch, val_acc=min(0.9, 0.5 + args.lr + 0.1 * epoch))
"""

if __name__ == "__main__":
    from syne_tune import StoppingCriterion, Tuner
    from syne_tune.backend import LocalBackend
    from syne_tune.config_space import choice, loguniform, randint
    from syne_tune.optimizer.schedulers.single_objective_scheduler import SingleObjectiveScheduler

    target = Path(__file__).parent / "syne_tune" / "digits"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "train.py"
        script.write_text(SCRIPT)
        space = {"lr": loguniform(1e-4, 0.1), "batch_size": randint(8, 64), "optimizer": choice(["adam", "sgd"])}
        scheduler = SingleObjectiveScheduler(space, metric="val_acc", do_minimize=False, searcher="random_search", random_seed=int(sys.argv[1]) if len(sys.argv) > 1 else 1)  # fmt: skip
        tuner = Tuner(LocalBackend(str(script)), scheduler, StoppingCriterion(max_num_trials_started=6), n_workers=1, tuner_name="digits", sleep_time=0.5, max_failures=9)  # fmt: skip
        tuner.run()
        for name in ("metadata.json", "results.csv.zip"):
            shutil.copy(Path(tuner.tuner_path) / name, target / name)
