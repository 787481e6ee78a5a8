"""Sixty and more wrong things that a person with a script, a space and a history of their own may type: each is told in our words."""

import json
import re

import numpy as np
import pytest
from stripes import pictures

from warmstart.history_store.history import History
from warmstart.spaces import space_text

SPACE = "lr: {log: [1e-4, 1]}\nbs: [8, 16, 32]\nmodel: [small, large]\n"
RUN = '{"lr": 0.01, "bs": 8, "model": "small"}'
COMMAND = "python fit.py {warmstart.dataset} {lr} {bs} {model}"
FILES = {
    "mine.yaml": SPACE,
    "fit.py": "print(0.3)\n",
    "half.json": '{"lr": ',
    "empty.json": "",
    "list.json": "[1, 2]",
    "binary.json": b"\xff\xfe\x00\x01",
    "open.yaml": "lr: [1, 2\n",
    "twice.yaml": "lr: [1, 2]\nlr: [3, 4]\n",
    "upside.yaml": "lr: [2.5, 1.5]\n",
    "logzero.yaml": "lr: {log: [0, 1]}\n",
    "unknown.yaml": "lr: {lgo: [1e-4, 1]}\n",
    "nothing.yaml": "",
    "deep.yaml": "[" * 3000,
    "short.csv": "dataset,lr,bs,model,error\nday,0.1,8,small,0.2,9,9\n",
    "quotes.csv": 'dataset,lr,bs,model,error\nday,"0.1,8,small,0.2\n',
    "loss.csv": "dataset,lr,bs,model,error\nday,0.1,8,small,20\n",
    "head.csv": "dataset,lr,bs,model,error\n",
    "blank.csv": "",
    "binary.csv": b"\xff\xfe\xfd" * 20,
    "fake.parquet": b"PAR0 no",
    "broken.toml": 'name = "x\n',
    "other.toml": "name = 3\n",
    "fake.db": b"no database" * 50,
    "fake.h5": b"no history" * 50,
    "suggest.json": json.dumps({"suggestions": [{"config": {"momentum": 0.9}}]}),
    "both.json": json.dumps([{"lr": 0.1, "log10_lr": -3}]),
    "numbers.json": json.dumps([1, 2]),
    "table.csv": "rank,from\n1,x\n",
}
SUGGEST = ["suggest", "day.npz", "--no-cache"]
RECORD = ["history", "record", "mine.h5", "--dataset", "day"]
IMPORT = ["history", "import", "mine.h5"]
COLLECT = ["history", "collect", "day.npz", "--history", "new.h5"]
TUNE = ["tune", "--history", "mine.h5", "--trials", "1", "--storage", "s.db", "--dataset", "day.npz"]
OWN = [*TUNE, "--space", "mine.yaml", "--command"]
CASES = [
    ([*SUGGEST, "--space", "half.json"], 3, "half.json, line 1: expected"),
    ([*SUGGEST, "--space", "open.yaml"], 3, "open.yaml, line"),
    ([*SUGGEST, "--space", "twice.yaml"], 3, "each name once"),
    ([*SUGGEST, "--space", "upside.yaml"], 3, "upside.yaml, line 1"),
    ([*SUGGEST, "--space", "logzero.yaml"], 3, "logzero.yaml, line 1"),
    ([*SUGGEST, "--space", "unknown.yaml"], 3, "unknown.yaml, line 1"),
    ([*SUGGEST, "--space", "nothing.yaml"], 3, "nothing.yaml"),
    ([*SUGGEST, "--space", "deep.yaml"], 3, "deep.yaml"),
    ([*SUGGEST, "--space", "binary.json"], 3, "binary.json"),
    ([*SUGGEST, "--space", "compct"], 2, "Did you mean compact"),
    ([*SUGGEST, "--space", "."], 2, "--space: expected"),
    ([*SUGGEST, "--rename", "a=b"], 2, "--rename needs --space"),
    ([*SUGGEST, "--space", "mine.yaml", "--rename", "a"], 2, "--rename: expected name=value"),
    ([*SUGGEST, "--space", "mine.yaml", "--rename", "nothing=lr"], 2, "--rename: expected a name of the source"),
    ([*SUGGEST, "--strategy", "jont"], 2, "Did you mean joint"),
    ([*SUGGEST, "--hisory", "mine.h5"], 2, "Did you mean --history"),
    ([*SUGGEST, "--history", "fake.h5"], 4, "fake.h5"),
    ([*SUGGEST, "--history", "mine.h5", "-k", "9"], 2, "-k: expected at most 1"),
    ([*SUGGEST, "--format", "jsn"], 2, "Did you mean json"),
    (["suggest"], 2, "Give your images: `warmstart suggest photos/`."),
    (["suggest", "day.npz", "--dataset", "other.npz"], 2, "expected one dataset, got 'day.npz' and --dataset 'other.npz'"),
    (["sugest", "day.npz"], 2, "Did you mean .?suggest"),
    ([*RECORD, "--error", "0.1", "--config", RUN[:-1]], 2, "--config: expected JSON"),
    ([*RECORD, "--error", "0.1", "--config", "@half.json"], 2, "--config: expected JSON"),
    ([*RECORD, "--error", "0.1", "--config", "@none.json"], 2, "--config: expected a readable file"),
    ([*RECORD, "--error", "0.1", "--config", "@binary.json"], 2, "--config: expected a readable file"),
    ([*RECORD, "--error", "0.1", "--config", "[]"], 2, "--config: expected a JSON object"),
    ([*RECORD, "--error", "0.1", "--config", '{"lr": 0.1}'], 3, "got none of bs, model"),
    ([*RECORD, "--error", "0.1", "--config", RUN.replace("0.01", "7")], 3, "lr = 7"),
    ([*RECORD, "--error", "0.1", "--config", RUN.replace("small", "huge")], 3, "model = 'huge'"),
    ([*RECORD, "--error", "0.1", "--config", RUN.replace('"lr"', '"eta"')], 3, "'eta', which is none of"),
    ([*RECORD, "--error", "91.5", "--config", RUN], 3, "expected an error in .0, 1., got error=91.5"),
    ([*RECORD, "--error", "nan", "--config", RUN], 3, "expected an error in"),
    ([*RECORD, "--config", RUN], 2, "--error: expected a validation error"),
    ([*RECORD, "--status", "died", "--config", RUN], 2, "--status: expected one of"),
    ([*RECORD, "--error", "0.1", "--config", RUN, "--curve", "[[2, 0.1], [1, 0.2]]"], 3, "updates that increase"),
    (["history", "record", "mine.h5", "--dataset", "dya", "--error", "0.1", "--config", RUN], 3, "got 'dya'. Add the dataset first"),
    ([*IMPORT, "short.csv"], 3, "short.csv"),
    ([*IMPORT, "quotes.csv"], 3, "quotes.csv"),
    ([*IMPORT, "loss.csv", "--metric", "error"], 3, "--error-range BEST,WORST"),
    ([*IMPORT, "loss.csv", "--metric", "error", "--error-range", "0"], 2, "expected BEST,WORST"),
    ([*IMPORT, "head.csv", "--metric", "error", "--error-range", "0,1"], 3, "expected runs"),
    ([*IMPORT, "blank.csv"], 3, "an empty file"),
    ([*IMPORT, "binary.csv"], 3, "binary.csv"),
    ([*IMPORT, "fake.parquet"], 3, "fake.parquet: expected a Parquet file"),
    ([*IMPORT, "none.csv"], 2, "none.csv"),
    ([*IMPORT, "half.json"], 3, "half.json"),
    ([*IMPORT, "fake.db"], 3, "fake.db"),
    ([*COLLECT, "--command", COMMAND], 2, "--space: expected the space of your script"),
    ([*COLLECT, "--space", "open.yaml", "--command", COMMAND], 3, "open.yaml, line"),
    ([*COLLECT, "--space", "mine.yaml", "--command", "python fit.py {lr}"], 2, "none for bs, model"),
    ([*COLLECT, "--space", "mine.yaml", "--command", COMMAND + " {epochs}"], 2, "got {epochs}"),
    ([*COLLECT, "--space", "mine.yaml", "--command", "nosuchprogram {warmstart.config}"], 2, "a program that can be run"),
    ([*COLLECT, "--space", "mine.yaml", "--command", COMMAND, "--objective", "fit:f"], 2, "--command cannot be used with --objective"),
    ([*COLLECT, "--space", "mine.yaml", "--command", COMMAND, "--metric", "accuracy"], 2, "Add --maximize"),
    ([*COLLECT, "--space", "mine.yaml", "--command", COMMAND, "--scale", "any"], 2, "--scale: expected fraction or percent"),
    ([*COLLECT, "--space", "mine.yaml", "--command", COMMAND, "--target-budget", "long"], 2, "--target-budget: expected a number"),
    ([*COLLECT, "--space", "mine.yaml", "--command", COMMAND, "--fraction", "0.5"], 2, "--fraction cannot be used with a script of your own"),
    ([*COLLECT, "--space", "mine.yaml", "--command", COMMAND, "--first", "half.json"], 3, "expected JSON"),
    ([*COLLECT, "--metric", "last"], 2, "expected a command, or --objective, got neither"),
    (["history", "collect", "broken.toml", "--history", "new.h5"], 3, "broken.toml: expected TOML"),
    (["history", "collect", "other.toml", "--history", "new.h5"], 3, "other.toml"),
    ([*COLLECT, "--timeout", "soon"], 2, "--timeout: expected a length of time"),
    ([*COLLECT, "--timeout", "0.5"], 2, "--timeout: expected at least one second"),
    ([*OWN, "python 'fit.py {lr}"], 2, "quotes or backslash stay open"),
    ([*OWN, COMMAND, "--metric", "regex:acc=("], 2, "--metric: expected a regular expression"),
    ([*OWN, COMMAND, "--initial", "half.json"], 3, "half.json, line 1"),
    ([*OWN, COMMAND, "--initial", "numbers.json"], 3, "expected configurations|--initial"),
    ([*OWN, COMMAND, "--initial", "nothing.yaml"], 3, "--initial|expected configurations"),
    ([*OWN, COMMAND, "--initial", "none.json"], 2, "--initial: expected a file"),
    ([*TUNE, "--objective", "nothing:f", "--space", "mine.yaml"], 2, "no module 'nothing'"),
    ([*TUNE, "--objective", "fit.py", "--space", "mine.yaml"], 2, "--objective: expected module:function"),
    ([*OWN, COMMAND, "--storage", "fake.db"], 4, "a file of another kind"),
    ([*OWN, COMMAND, "--storage", "mysqll://me@host/db"], 2, "--storage"),
    ([*OWN, COMMAND, "--timeout", "soon"], 2, "a length of time"),
    ([*OWN, COMMAND, "--no-warm", "--warm", "initial"], 2, "--no-warm cannot be used with --warm initial."),
]  # fmt: skip
LIBRARIES = re.compile(
    r"Traceback|Expecting |Errno|Extra data|No closing|codec can't|No module named|YAMLError|mapping values|did not find"
    r"|sqlalchemy|sqlite3|ConfigSpace\.|HyperparameterNotFound|tokenizing|ArrowInvalid|Unable to (?:synchronously )?open|could not convert"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("further")
    images, labels = pictures(0, size=8)
    np.savez(place / "day.npz", images=images, labels=labels)
    for name, text in FILES.items():
        (place / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    with History.create(place / "mine.h5", space_text(place / "mine.yaml")) as history:
        from warmstart.histories.add import DatasetCard, add_source
        from warmstart.histories.typed_run import read_evaluation
        from warmstart.suggestions.query import open_path

        add_source(history, open_path(str(place / "day.npz")), DatasetCard("day", "day"))
        history.append(read_evaluation(dataset="day", config=RUN, error=0.2))
    return place


def test_there_are_sixty():
    assert len(CASES) >= 60


@pytest.mark.parametrize(("call", "code", "match"), CASES, ids=[" ".join(call)[-60:] for call, _, _ in CASES])
def test_what_is_wrong_is_told_in_our_words(call, code, match, folder, cli, monkeypatch):
    monkeypatch.chdir(folder)
    before = (folder / "mine.h5").read_bytes()
    run = cli(*call)
    said = " ".join(run.err.split())
    assert run.code == code, said
    assert re.search(match, said), said
    assert not LIBRARIES.search(said), said
    assert (folder / "mine.h5").read_bytes() == before
