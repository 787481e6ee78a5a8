"""The program of the archived studies: `python program.py --rate R --layers L --kind K [--momentum M] --seed S`."""

import argparse
import json

from objective import wait

parser = argparse.ArgumentParser()
parser.add_argument("--rate", type=float)
parser.add_argument("--layers", type=int)
parser.add_argument("--kind")
parser.add_argument("--momentum", type=float, default=0.0)
parser.add_argument("--seed", type=int)
args = parser.parse_args()
wait()
accuracy = max(0.0, 0.9 - abs(args.rate - 0.1) / 2 - args.layers / 20 - args.momentum / 10)
for step in (1, 2, 4):
    print(json.dumps({"step": step, "accuracy": accuracy * step / 5}), flush=True)  # noqa: T201
print(json.dumps({"accuracy": accuracy, "constraints": {"small": args.layers - 5}}))  # noqa: T201
