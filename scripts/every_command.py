"""Run every command of the installed warmstart once, on small inputs, in a new folder: `python every_command.py [WORD]...`.

A word selects the checks whose name begins with it. A command that has no sample here fails the run, so that none is forgotten.
Nothing but the installed package is used: no file of a checkout.
"""

import argparse
import contextlib
import importlib.util
import json
import os
import pwd
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

LIMIT_S = 900
"""Seconds that one sample may take; they catch a hang."""

RUN = '{"log10_learning_rate": -3.0, "log10_decay_rate": -6.0, "batch_size": 16, "num_layers_conv": 2, "num_layers_fc": 1, "dropout_rate": 0.2}'
SCRIPT = '--space space.yaml --command "python train.py {warmstart.config}"'

FILES = {
    "space.yaml": """\
lr: {log: [1e-5, 0.1]}
layers: {int: [1, 9]}
optimizer: [sgd, adam]
momentum: {float: [0, 0.99], if: {optimizer: sgd}}
""",
    "narrow.yaml": "lr: {log: [1e-4, 0.1]}\nbatch_size: [16, 32, 64]\n",
    "train.py": """\
import json
import sys

config = json.loads(sys.argv[1])
print(abs(config["lr"] - 0.01) + config["layers"] / 100 + config.get("momentum", 0.5) / 50)
""",
    "argparsed.py": (
        "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--lr', type=float, default=0.1)\n"
        "print('val_acc', parser.parse_args().lr)\n"
    ),
    "own.py": "def f(config, seed):\n    return (config['lr'] - 0.01) ** 2 + config['layers'] / 100 + seed % 7 / 1000\n",
    "pictures.py": """\
from pathlib import Path

import numpy as np
from PIL import Image

y, x = np.mgrid[:32, :32] / 32
for kind in range(6):
    rng = np.random.default_rng(kind)
    for number in range(40):
        angle = number % 4 * np.pi / 4
        wave = 0.5 + 0.5 * np.sin(2 * np.pi * (2 + kind) * (np.cos(angle) * x + np.sin(angle) * y))
        noisy = wave[..., None] * [0.9, 0.5, 0.3] + rng.normal(0, 0.05, (32, 32, 3))
        folder = Path(f"photos{kind}") / f"class{number % 4}"
        folder.mkdir(parents=True, exist_ok=True)
        ending = ("png", "jpg", "bmp", "webp")[number % 4 if kind == 5 else 0]
        Image.fromarray((noisy.clip(0, 1) * 255).astype(np.uint8)).save(folder / f"{number:02}.{ending}")
""",
}
"""What the samples work on; `pictures.py` draws six image sets of four classes."""


class Sample(NamedTuple):
    """A call of a command, a pattern that what it prints has, and files that it leaves."""

    call: str
    prints: str = ""
    leaves: tuple[str, ...] = ()


SAMPLES: dict[str, tuple[Sample, ...]] = {
    "example": (Sample("digits", "1797", ("digits/0", "digits/9")),),
    "classify": (Sample("--help", "--group-column"),),
    "history create": (Sample("own.h5 --space compact --configs 4"), Sample("other.h5 --space compact")),
    "history add": tuple(
        Sample(f"own.h5 --dataset photos{kind} --name photos{kind} --group group{kind // 2}") for kind in range(6)
    ),
    "history record": (
        Sample(f"own.h5 --dataset photos0 --error 0.04 --duration 12.5 --seed 1 --config '{RUN}'"),
        Sample(f"own.h5 --dataset photos0 --status oom --seed 2 --config '{RUN}'"),
    ),
    "history collect": (
        Sample(
            "photos0 photos1 photos2 photos3 --history script.h5 --space space.yaml --configs 4 --replicates 1 --workers 2"
            ' --command "python train.py {warmstart.config} {warmstart.dataset}"',
            "16 ok",
        ),
        Sample("photos0 --history cnn.h5 --space compact --configs 1 --replicates 1 --workers 1 --device cpu", "1 ok"),
    ),
    "history export": (
        Sample("script.h5 runs.csv", leaves=("runs.csv",)),
        Sample("script.h5 runs.parquet", leaves=("runs.parquet",)),
        Sample("script.h5 shards", leaves=("shards",)),
    ),
    "history import": (
        Sample("again.h5 runs.csv", "16", ("again.h5",)),
        Sample("parquet.h5 runs.parquet", "16", ("parquet.h5",)),
    ),
    "history list": (Sample("own.h5", "photos5"), Sample("", "mnist")),
    "history show": (Sample("photos0 --history own.h5", "photos0"), Sample("--history script.h5")),
    "history embed": (Sample("own.h5"),),
    "fit-similarity": (
        Sample(
            "script.h5 --steps 2 --out own.safetensors --hold-out-group photos3 --device cpu",
            leaves=("own.safetensors", "own.safetensors.curves.json"),
        ),
    ),
    "suggest": (
        Sample("--dataset sklearn:digits --exclude-group sklearn_digits --explain", "Where they come from"),
        Sample("--dataset photos0 --history script.h5 --model own.safetensors -k 2 --format json", '"suggestions"'),
        *(
            Sample(f"--dataset photos5 --strategy {name} -k 2", "EfficientNet")
            for name in ("nearest", "portfolio", "average-rank")
        ),
        Sample("--dataset photos1 --space space.yaml --format yaml", "optimizer"),
        Sample("--dataset photos1 --space narrow.yaml --format csv", "batch_size"),
        Sample("--dataset photos1 --format configspace", "flip_copies"),
        Sample("--dataset photos1 --format ray", "flip_copies"),
        Sample("--dataset photos1 --format optuna", "enqueue_trial"),
    ),
    "neighbours": (Sample("--dataset photos0 -k 5 --format csv", "distance"),),
    "space init": (Sample("--out example.yaml", leaves=("example.yaml",)),),
    "space from-script": (Sample("argparsed.py --out argparsed.yaml", "lr", ("argparsed.yaml",)),),
    "tune": (
        Sample('--rehearse --space argparsed.yaml --command "python argparsed.py --lr {lr}"', "val_acc"),
        Sample(
            "--dataset photos0 --workload cnn --trials 2 --budget 20 --study cnn --save-model clf.safetensors --device cpu",
            "Report",
            ("clf.safetensors", "warmstart-studies-reports/cnn/report.md"),
        ),
        *(
            Sample(f"{SCRIPT} --no-warm --trials 6 --startup 4 --study {name} --surrogate {name}", "trial")
            for name in ("gp", "gp-map", "dngo", "bohamiann")
        ),
        Sample("--objective own.py:f --space space.yaml --no-warm --trials 4 --study workers --workers 2", "trial"),
    ),
    "predict": (
        Sample("clf.safetensors photos0/class0/00.png", "class"),
        Sample("clf.safetensors --dataset photos0", "right"),
        Sample("clf.safetensors photos0/class0/00.png --sort-into sorted --unsure 0", "copy"),
    ),
    "export": (Sample("clf.safetensors card.json", "card.json", ("card.json",)),),
    "evaluate": (
        Sample("--methods random,portfolio,average-rank --only semeion --out report.json", "semeion", ("report.json",)),
    ),
    "backup": (Sample("all.tar --storage warmstart-studies.db", "studies.db", ("all.tar",)),),
    "restore-backup": (Sample("all.tar --storage restored.db", "studies.db", ("restored.db",)),),
    "cache": (Sample("", "features"), Sample("--clear")),
    "plot map": (
        Sample("--out map.svg", leaves=("map.svg",)),
        Sample("--dataset photos0 --out map.png", leaves=("map.png",)),
    ),
    "plot ccov": (Sample("--out ccov.png", leaves=("ccov.png",)),),
    "plot regret": (Sample("report.json --out regret.svg", leaves=("regret.svg",)),),
    "plot run": (Sample("warmstart-studies.db --study gp --out run.png", leaves=("run.png",)),),
    "studies list": (Sample("", "workers"),),
    "studies show": (Sample("gp", "optimizer"),),
    "studies plot": (Sample("gp --out study.svg", leaves=("study.svg",)),),
    "studies export": tuple(
        Sample(f"trials.{ending} gp", leaves=(f"trials.{ending}",)) for ending in ("csv", "parquet", "json", "html")
    ),
    "studies rename": (Sample("gp process", "process"),),
    "studies delete": (Sample("process --yes", "process"),),
    "history bundle": (Sample("own.h5 --out own.gz", leaves=("own.gz",)),),
    "history merge": (Sample("other.h5 own.gz --dry-run"), Sample("other.h5 own.gz", "contributed_runs")),
    "history quarantine": (Sample("other.h5"),),
    "history verify": (Sample("own.h5"), Sample("other.h5"), Sample("script.h5"), Sample("")),
    "history compact": (Sample("own.h5 --drop-images --out small.h5", leaves=("small.h5",)),),
    "history upgrade": (Sample("own.h5"),),
    "history remove": (Sample("own.h5 photos5 --yes"), Sample("own.h5 photos4 --yes")),
    "serve": (
        Sample("--new-token ann --token-file tokens", leaves=("tokens",)),
        Sample("--list-tokens --token-file tokens", "ann"),
    ),
}
"""A sample of every command, in an order in which each finds what it needs."""


PROGRAMS: dict[str, tuple[str, str]] = {
    "suggest in Python": (
        "",
        """
import numpy as np
import torch
from sklearn.datasets import load_digits
from torch.utils.data import TensorDataset

import warmstart

for design in warmstart.suggest("sklearn:digits", k=3, exclude_group="sklearn_digits"):
    print(design.config, design.source, design.distance)
digits = load_digits()
images = (digits.images / 16).astype(np.float32)
assert len(warmstart.suggest(images=images, labels=digits.target, k=3, seed=0)) == 3
dataset = TensorDataset(torch.from_numpy(images)[:, None], torch.from_numpy(digits.target))
assert len(warmstart.suggest(images=dataset)) == 3
assert warmstart.neighbours("photos0", k=3)[0].name
""",
    ),
    "tune in Python": (
        "",
        """
import warmstart

result = warmstart.tune(
    objective=lambda config, seed: (config["lr"] - 0.01) ** 2, space="space.yaml", warm="none", trials=3, storage="lambda.db"
)
assert len(result.trials) == 3, result
""",
    ),
    "Optuna sampler": (
        "",
        """
import optuna

from warmstart.integrations.optuna import WarmStartSampler, warm_start


def objective(trial):
    rate = trial.suggest_float("learning_rate", 1e-5, 1.0, log=True)
    return (trial.suggest_float("dropout_rate", 0.0, 0.9) - 0.3) ** 2 + rate + trial.suggest_int("num_layers_conv", 1, 9)


study = optuna.create_study(sampler=WarmStartSampler(seed=0), storage="sqlite:///sampler.db")
warm_start(study, dataset="photos1", k=3)
study.optimize(objective, n_trials=8)
assert len(study.trials) == 8
""",
    ),
    "datasets as tables": (
        "",
        """
import io

import numpy as np
import pyarrow as pa
from PIL import Image
from pyarrow import parquet

import warmstart

rng, rows = np.random.default_rng(0), []
for number in range(60):
    file = io.BytesIO()
    Image.fromarray(rng.integers(0, 256, (32, 32, 3), dtype=np.uint8)).save(file, "png")
    rows.append({"image": {"bytes": file.getvalue(), "path": None}, "label": number % 3})
parquet.write_table(pa.Table.from_pylist(rows), "table.parquet")
assert len(warmstart.suggest("table.parquet", k=2)) == 2
""",
    ),
    "format optuna": (
        "",
        """
import runpy
import subprocess
import sys
from pathlib import Path

call = [sys.executable, "-m", "warmstart", "suggest", "--dataset", "photos1", "--format", "optuna"]
Path("start.py").write_bytes(subprocess.run(call, capture_output=True, check=True).stdout)
study = runpy.run_path("start.py")["study"]
study.optimize(lambda trial: trial.suggest_float("dropout_rate", 0.0, 0.9), n_trials=2)
""",
    ),
    "BoTorch": (
        "botorch",
        """
import numpy as np
import torch
from botorch.acquisition import LogExpectedImprovement, qLogNoisyExpectedImprovement
from botorch.optim import optimize_acqf

from warmstart.bo.surrogates import GaussianProcess
from warmstart.integrations.botorch import SurrogateModel

X = np.random.default_rng(0).random((10, 2))
process = GaussianProcess().fit(X, ((X - 0.3) ** 2).sum(axis=1), rng=np.random.default_rng(0))
bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)
scores = (
    LogExpectedImprovement(SurrogateModel(process), best_f=-0.01),
    qLogNoisyExpectedImprovement(SurrogateModel(process), X_baseline=torch.as_tensor(X)),
)
for score in scores:
    points, value = optimize_acqf(score, bounds, q=1, num_restarts=2, raw_samples=16, options={"maxiter": 10})
    assert points.shape == (1, 2)
""",
    ),
    "GPyOpt": (
        "GPyOpt",
        """
from ConfigSpace import ConfigurationSpace, Float

from warmstart.bo import Optimizer

space = ConfigurationSpace(seed=0)
space.add(Float("x", (0.0, 1.0)))
for surrogate, acquisition in (("gp", "ei"), ("gp-map", "lcb")):
    optimizer = Optimizer(space, engine="gpyopt", surrogate=surrogate, acquisition=acquisition)
    for _ in range(4):
        config = optimizer.ask()[0]
        optimizer.tell(config, (config["x"] - 0.3) ** 2)
""",
    ),
}
"""Programs in Python: the module that they need besides the plain installation, and their text."""

OPTIONAL: dict[str, tuple[str, tuple[Sample, ...]]] = {
    "tune, pretrained": (
        "timm",
        (
            Sample(
                "tune --dataset photos0 --workload transfer --trials 2 --study pretrained --save-model pretrained.safetensors"
                " --device cpu",
                "Report",
                ("pretrained.safetensors",),
            ),
            Sample("predict pretrained.safetensors photos0/class0/00.png", "class"),
            Sample("suggest photos0 --workload transfer --format timm", "--model"),
            Sample("suggest photos0 --workload transfer --format python", "import timm"),
        ),
    ),
    "tune, Ray": (
        "ray",
        (Sample(f"tune {SCRIPT} --no-warm --trials 3 --study ray --ray --workers 1 --cpus-per-trial 0.5", "trial"),),
    ),
    **{
        f"tune, {name}": (
            name,
            (
                Sample(
                    f"tune {SCRIPT} --no-warm --trials 2 --study {name} --track {name}", f"Tracked by {name}", (left,)
                ),
            ),
        )
        for name, left in {
            "mlflow": "mlflow.db",
            "tensorboard": "warmstart-studies-reports/tensorboard/tensorboard/trial-1",
            "wandb": "warmstart-studies-reports/wandb/wandb/latest-run",
        }.items()
    },
}
"""Calls that need a module of an extra."""


class FailedError(Exception):
    """A check did not come out as it should."""


class SkippedError(Exception):
    """A check needs what is not here."""


def call(*words: str, prints: str = "", leaves: tuple[str, ...] = ()) -> str:
    """Run the interpreter with some words; returns what it printed.

    Raises:
        FailedError: when its exit code is another than 0, or it did not print or leave what it should.
    """
    settings = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    try:
        done = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=LIMIT_S, env=settings)
    except subprocess.TimeoutExpired as error:
        msg = f"no end after {LIMIT_S} s"
        raise FailedError(msg) from error
    if done.returncode:
        lines = done.stderr.strip().splitlines() or done.stdout.strip().splitlines() or ["nothing was said"]
        msg = f"exit {done.returncode}: {lines[-1]}"
        raise FailedError(msg)
    if not re.search(prints, done.stdout):
        msg = f"{prints!r} is not in what it printed: {done.stdout[-300:]!r}"
        raise FailedError(msg)
    if lacking := [name for name in leaves if not Path(name).exists()]:
        msg = f"it left no {', '.join(lacking)}"
        raise FailedError(msg)
    return done.stdout


def sample(words: str, one: Sample) -> None:
    """Run a sample of a command."""
    try:
        call("-m", "warmstart", *words.split(), *shlex.split(one.call), prints=one.prints, leaves=one.leaves)
    except FailedError as error:
        msg = f"warmstart {words} {one.call}: {error}"
        raise FailedError(msg) from error


def need(module: str) -> None:
    """Go on where a module is installed.

    Raises:
        SkippedError: where it is not.
    """
    if module and importlib.util.find_spec(module) is None:
        msg = f"{module} is not installed"
        raise SkippedError(msg)


def free_port() -> int:
    """Find a port of loopback that is free."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@contextlib.contextmanager
def process(words: list[str], **settings: object) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program while a block lasts; what it says goes to `server.log`."""
    with Path("server.log").open("ab") as log:
        started = subprocess.Popen(words, stdout=log, stderr=log, **settings)
    try:
        yield started
    finally:
        started.terminate()
        started.wait(60)


def check_service() -> None:
    """Start the service, ask it, tune with it."""
    need("fastapi")
    need("uvicorn")
    port = free_port()
    ask = f"import warmstart\nwith warmstart.Client('http://127.0.0.1:{port}', retries=12) as client:\n    "
    serve = ["-m", "warmstart", "serve", "--port", str(port), "--history", "own.h5", "--storage", "served.db"]
    with process([sys.executable, *serve]):
        call("-c", f"{ask}print(client.suggest('photos1', 2).suggestions)", prints="InitialDesign")
        sample("suggest", Sample(f"--dataset photos1 --server http://127.0.0.1:{port}", "Why these: --explain"))
        sample("tune", Sample(f"{SCRIPT} --no-warm --trials 3 --study s --server http://127.0.0.1:{port}", "trial"))


def check_database(driver: str, start: Callable[[], contextlib.AbstractContextManager[str]]) -> None:
    """Tune in a database of a server that runs as long."""
    need(driver)
    with start() as url:
        sample("tune", Sample(f"{SCRIPT} --no-warm --trials 4 --workers 2 --study one --storage {url}", "trial"))
        sample("studies show", Sample(f"one --storage {url}", "optimizer"))


def as_user(folder: Path) -> dict[str, object]:
    """Give a folder to a user who may run a database server, which root may not; returns what `Popen` takes for that."""
    if os.getuid():
        return {"cwd": folder}
    nobody = pwd.getpwnam("nobody")
    os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    return {"cwd": folder, "user": nobody.pw_uid, "group": nobody.pw_gid}


def wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    """Wait until a server listens.

    Raises:
        FailedError: when it ends, or takes longer than a minute.
    """
    for _ in range(600):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        if server.poll() is not None:
            break
        time.sleep(0.1)
    msg = f"the database server did not start: {Path('server.log').read_text()[-300:]}"
    raise FailedError(msg)


@contextlib.contextmanager
def postgres() -> Iterator[str]:
    """Run PostgreSQL."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: float(folder.parent.name))
    if not found:
        msg = "no PostgreSQL is installed here"
        raise SkippedError(msg)
    with tempfile.TemporaryDirectory() as folder:
        user, port = as_user(Path(folder)), free_port()
        subprocess.run(
            [found[-1] / "initdb", "-D", "data", "-A", "trust", "-U", "warm", "--no-sync"],
            **user,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        words = ["-D", "data", "-p", str(port), "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]
        with process([str(found[-1] / "postgres"), *words], **user) as server:
            wait_for(port, server)
            time.sleep(2)
            yield f"postgresql://warm@127.0.0.1:{port}/postgres"


@contextlib.contextmanager
def mariadb() -> Iterator[str]:
    """Run MariaDB."""
    program = shutil.which("mariadbd", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        msg = "no MariaDB is installed here"
        raise SkippedError(msg)
    with tempfile.TemporaryDirectory() as folder:
        user, port, data = as_user(Path(folder)), free_port(), ["--no-defaults", f"--datadir={folder}/data"]
        make = ["mariadb-install-db", *data, "--auth-root-authentication-method=normal", "--skip-test-db"]
        subprocess.run(make, **user, check=True, stdout=subprocess.DEVNULL)
        script = Path(folder, "init.sql")
        script.write_text(
            "create database warm;\ncreate user warm@'127.0.0.1' identified by 'secret';\n"
            "grant all on warm.* to warm@'127.0.0.1';\n"
        )
        words = [f"--port={port}", "--bind-address=127.0.0.1", "--skip-name-resolve", f"--init-file={script}"]
        with process([program, *data, *words, f"--socket={folder}/socket"], **user) as server:
            wait_for(port, server)
            time.sleep(2)
            yield f"mysql+pymysql://warm:secret@127.0.0.1:{port}/warm"


def program(needed: str, text: str) -> None:
    """Run a program in Python; warnings of deprecation do not matter."""
    need(needed)
    call("-c", text)


def optional(needed: str, samples: tuple[Sample, ...]) -> None:
    """Run samples that need a module."""
    need(needed)
    for one in samples:
        sample("", one)


def samples_of(words: str) -> None:
    """Run all samples of a command."""
    for one in SAMPLES[words]:
        sample(words, one)


def check_tree() -> None:
    """Compare the samples with the tree of commands.

    Raises:
        FailedError: when a command has no sample, or a sample no command.
    """
    text = "import json\nfrom warmstart.cli.app import COMMANDS\nprint(json.dumps([f'{c.group} {c.name}'.strip() for c in COMMANDS]))"
    commands = json.loads(call("-c", text))
    if lacking := sorted(set(commands) - set(SAMPLES)):
        msg = f"commands without a sample in {Path(__file__).name}: {', '.join(lacking)}"
        raise FailedError(msg)
    if unknown := sorted(set(SAMPLES) - set(commands)):
        msg = f"samples of commands that are not there: {', '.join(unknown)}"
        raise FailedError(msg)


def checks() -> dict[str, Callable[[], None]]:
    """Return all checks by name, in order."""
    found: dict[str, Callable[[], None]] = {"the tree of commands": check_tree}
    found["pictures"] = lambda: (call("pictures.py"), None)[1]
    for words in SAMPLES:
        found[words] = lambda words=words: samples_of(words)
    for name, (needed, text) in PROGRAMS.items():
        found[name] = lambda needed=needed, text=text: program(needed, text)
    found["service"] = check_service
    for name, (needed, calls) in OPTIONAL.items():
        found[name] = lambda needed=needed, calls=calls: optional(needed, calls)
    found["tune, PostgreSQL"] = lambda: check_database("psycopg", postgres)
    found["tune, MariaDB"] = lambda: check_database("pymysql", mariadb)
    return found


def main() -> int:
    """Run the checks; returns 1 where one failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "words", nargs="*", help="run the checks alone whose name begins with one of these, and `pictures`"
    )
    parser.add_argument("--all", action="store_true", help="what is skipped counts as failed")
    parser.add_argument("--stop", action="store_true", help="end with the first failure")
    args = parser.parse_args()
    verdicts: dict[str, str] = {}
    os.environ |= {"WARMSTART_CACHE": "cache", "WANDB_MODE": "offline", "MLFLOW_TRACKING_URI": "sqlite:///mlflow.db"}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for name, text in FILES.items():
            Path(name).write_text(text, encoding="utf-8")
        for name, check in checks().items():
            if args.words and name != "pictures" and not any(f"{name} ".startswith(f"{word} ") for word in args.words):
                continue
            began, verdict = time.monotonic(), "works"
            try:
                check()
            except SkippedError as error:
                verdict = f"FAILED: {error}" if args.all else f"skipped: {error}"
            except (FailedError, OSError, subprocess.SubprocessError) as error:
                verdict = f"FAILED: {error}"
            verdicts[name] = verdict
            print(f"{name:<22} {time.monotonic() - began:5.1f} s  {verdict}", flush=True)
            if args.stop and verdict.startswith("FAILED"):
                break
    failed = sum(verdict.startswith("FAILED") for verdict in verdicts.values())
    print(f"{len(verdicts) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
