"""Runs as timm, Ultralytics, Trainer, Lightning, MLflow and W&B leave them in their folders: three rates, the last crashed."""

import csv
import json
import sqlite3

RATES = (0.1, 0.01, 0.001)


def table(path, rows):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def timm(root, *, runs=RATES, epochs=3):
    for number, rate in enumerate(runs):
        folder = root / f"20240101-{number:06d}-resnet18"
        folder.mkdir(parents=True)
        args = f"aa: null\nbatch_size: 128\ndata_dir: /data/flowers\ndecay_milestones:\n- 90\n- 180\nepochs: {epochs}\nlr: {rate!r}\nmodel: resnet18\nname: 'it''s'\nseed: 7\n"
        (folder / "args.yaml").write_text(args)
        done = epochs - 1 if number == 2 else epochs
        table(folder / "summary.csv", [{"epoch": e, "train_loss": 2 - e, "eval_loss": 1.0, "eval_top1": 50.0 + 10 * e + number % 10, "eval_top5": 90, "lr": rate} for e in range(done)])  # fmt: skip
    return root


def ultralytics(root):
    for number, rate in enumerate(RATES):
        folder = root / "classify" / f"train{number}"
        folder.mkdir(parents=True)
        args = f"task: classify\nmode: train\nmodel: yolov8n-cls.pt\ndata: flowers.yaml\nepochs: 3\ntime: null\npatience: 100\nbatch: 16\nimgsz: 64\noptimizer: SGD\nlr0: {rate!r}\nseed: 0\nsave_dir: runs/classify/train{number}\n"
        (folder / "args.yaml").write_text(args)
        done = 2 if number == 2 else 3
        table(folder / "results.csv", [{"  epoch": e, "    time": 2.5 * e, "metrics/accuracy_top1": 0.4 + 0.1 * e, "metrics/accuracy_top5": 0.9, "val/loss": 1.0} for e in range(1, done + 1)])  # fmt: skip
    return root


def trainer(root):
    for number, rate in enumerate(RATES):
        for step in (10, 20) if number != 2 else (10,):
            folder = root / f"run-{number}" / f"checkpoint-{step}"
            folder.mkdir(parents=True)
            log = [{"step": s, "epoch": s / 10, "eval_accuracy": 0.5 + s / 100, "eval_loss": 1.0} for s in range(10, step + 1, 10)]  # fmt: skip
            log += [{"step": step, "train_runtime": 12.5, "learning_rate": rate}]
            state = {"global_step": step, "max_steps": 20, "num_train_epochs": 2, "train_batch_size": 32, "log_history": log, "trial_params": {"learning_rate": rate}}  # fmt: skip
            (folder / "trainer_state.json").write_text(json.dumps(state))
    return root


def lightning(root):
    for number, rate in enumerate(RATES):
        folder = root / f"version_{number}"
        folder.mkdir(parents=True)
        (folder / "hparams.yaml").write_text(f"lr: {rate!r}\nmodel: !!python/object:my.Model\n  width: 8\n")
        if number != 2:
            table(folder / "metrics.csv", [{"epoch": 0, "step": 9, "train_loss": 1, "val_acc": ""}, {"epoch": 0, "step": 9, "train_loss": "", "val_acc": 0.6}, {"epoch": 1, "step": 19, "train_loss": "", "val_acc": 0.7}])  # fmt: skip
    return root


def mlflow(root):
    experiment = root / "mlruns" / "123"
    experiment.mkdir(parents=True)
    (experiment / "meta.yaml").write_text("experiment_id: '123'\nname: flowers\n")
    for number, (rate, status) in enumerate(zip((*RATES, 1.0), (3, 3, 4, 1), strict=True)):
        folder = experiment / f"{number:032x}"
        (folder / "params").mkdir(parents=True)
        (folder / "metrics" / "val").mkdir(parents=True)
        (folder / "params" / "lr").write_text(str(rate))
        (folder / "metrics" / "val" / "acc").write_text("1700000000000 0.5 0\n1700000000001 0.75 1\n")
        (folder / "meta.yaml").write_text(f"end_time: 1700000030000\nlifecycle_stage: active\nrun_id: {number:032x}\nstart_time: 1700000000000\nstatus: {status}\n")  # fmt: skip
    return root


def database(root):
    root.mkdir(parents=True, exist_ok=True)
    with sqlite3.connect(root / "mlflow.db") as base:
        base.executescript(
            "CREATE TABLE experiments (experiment_id INTEGER, name TEXT, lifecycle_stage TEXT);"
            "CREATE TABLE runs (run_uuid TEXT, status TEXT, start_time INTEGER, end_time INTEGER, lifecycle_stage TEXT, experiment_id INTEGER);"
            "CREATE TABLE params (key TEXT, value TEXT, run_uuid TEXT);"
            "CREATE TABLE metrics (key TEXT, value REAL, timestamp INTEGER, run_uuid TEXT, step INTEGER, is_nan INTEGER);"
            "INSERT INTO experiments VALUES (1, 'flowers', 'active');"
        )
        for number, (rate, status) in enumerate(zip((*RATES, 1.0), ("FINISHED", "FINISHED", "FAILED", "RUNNING"), strict=True)):  # fmt: skip
            base.execute("INSERT INTO runs VALUES (?, ?, 0, 30000, 'active', 1)", (f"r{number}", status))
            base.execute("INSERT INTO params VALUES ('lr', ?, ?)", (str(rate), f"r{number}"))
            base.executemany("INSERT INTO metrics VALUES ('val/acc', ?, 0, ?, ?, 0)", [(0.5, f"r{number}", 0), (0.75, f"r{number}", 1)])  # fmt: skip
    return root / "mlflow.db"


def wandb(root):
    for number, rate in enumerate(RATES):
        folder = root / "wandb" / f"run-20240101_00000{number}-abc{number}" / "files"
        folder.mkdir(parents=True)
        (folder / "config.yaml").write_text(f"_wandb:\n    value:\n        cli_version: 0.17\nlr:\n    desc: null\n    value: {rate!r}\noptimizer:\n    value: sgd\n")  # fmt: skip
        if number != 2:
            (folder / "wandb-summary.json").write_text(json.dumps({"val_acc": 0.7, "_runtime": 30, "_wandb": {"runtime": 30}}))  # fmt: skip
    return root


def wandb_json(root):
    root.mkdir(parents=True, exist_ok=True)
    runs = [{"name": "a", "state": state, "config": {"lr": rate}, "summary": {"val_acc": 0.7, "_wandb": {"runtime": 30}}, "history": [{"_step": 0, "val_acc": 0.5}, {"_step": 1, "val_acc": 0.7}]} for rate, state in zip((*RATES, 1.0), ("finished", "finished", "crashed", "running"), strict=True)]  # fmt: skip
    (root / "runs.json").write_text(json.dumps(runs))
    return root / "runs.json"


MADE = {"timm": timm, "ultralytics": ultralytics, "trainer": trainer, "lightning": lightning, "mlflow": mlflow, "database": database, "wandb": wandb, "json": wandb_json}  # fmt: skip
