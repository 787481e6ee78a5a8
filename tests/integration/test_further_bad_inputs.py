"""Wrong things that a person with a script, a space and a history of their own may type: each is told in our words."""

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
    "open.yaml": "lr: [1, 2\n",
    "twice.yaml": "lr: [1, 2]\nlr: [3, 4]\n",
    "logzero.yaml": "lr: {log: [0, 1]}\n",
    "unknown.yaml": "lr: {lgo: [1e-4, 1]}\n",
    "deep.yaml": "[" * 3000,
    "short.csv": "dataset,lr,bs,model,error\nday,0.1,8,small,0.2,9,9\n",
    "quotes.csv": 'dataset,lr,bs,model,error\nday,"0.1,8,small,0.2\n',
    "loss.csv": "dataset,lr,bs,model,error\nday,0.1,8,small,20\n",
    "head.csv": "dataset,lr,bs,model,error\n",
    "blank.csv": "",
    "binary.csv": b"\xff\xfe\xfd" * 20,
    "fake.parquet": b"PAR0 no",
    "broken.toml": 'name = "x\n',
    "fake.db": b"no database" * 50,
    "fake.h5": b"no history" * 50,
    "numbers.json": json.dumps([1, 2]),
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
    ([*SUGGEST, "--space", "logzero.yaml"], 3, "logzero.yaml, line 1"),
    ([*SUGGEST, "--space", "unknown.yaml"], 3, "unknown.yaml, line 1"),
    ([*SUGGEST, "--space", "deep.yaml"], 3, "deep.yaml"),
    ([*SUGGEST, "--space", "."], 2, "--space: expected"),
    ([*SUGGEST, "--rename", "a=b"], 2, "--rename needs --space"),
    ([*SUGGEST, "--space", "mine.yaml", "--rename", "a"], 2, "--rename: expected name=value"),
    ([*SUGGEST, "--space", "mine.yaml", "--rename", "nothing=lr"], 2, "--rename: expected a name of the source"),
    ([*SUGGEST, "--history", "fake.h5"], 4, "fake.h5"),
    (["suggest", "day.npz", "--dataset", "other.npz"], 2, "expected one dataset, got 'day.npz' and --dataset 'other.npz'"),
    ([*RECORD, "--error", "0.1", "--config", "@none.json"], 2, "--config: expected a readable file"),
    ([*RECORD, "--error", "0.1", "--config", "[]"], 2, "--config: expected a JSON object"),
    ([*RECORD, "--error", "0.1", "--config", '{"lr": 0.1}'], 3, "got none for bs"),
    ([*RECORD, "--error", "0.1", "--config", RUN.replace("0.01", "7")], 3, "lr=7"),
    ([*RECORD, "--error", "0.1", "--config", RUN.replace("small", "huge")], 3, "model='huge'"),
    ([*RECORD, "--error", "0.1", "--config", RUN.replace('"lr"', '"eta"')], 3, "the unknown name 'eta'"),
    ([*RECORD, "--error", "91.5", "--config", RUN], 3, "expected an error in .0, 1., got error=91.5"),
    ([*RECORD, "--error", "0.1", "--config", RUN, "--curve", "[[2, 0.1], [1, 0.2]]"], 3, "updates that increase"),
    (["history", "record", "mine.h5", "--dataset", "dya", "--error", "0.1", "--config", RUN], 3, "got 'dya'. Add the dataset first"),
    ([*IMPORT, "short.csv"], 3, "short.csv"),
    ([*IMPORT, "quotes.csv"], 3, "quotes.csv"),
    ([*IMPORT, "loss.csv", "--metric", "error"], 3, "--error-range BEST,WORST"),
    ([*IMPORT, "head.csv", "--metric", "error", "--error-range", "0,1"], 3, "expected runs"),
    ([*IMPORT, "blank.csv"], 3, "an empty file"),
    ([*IMPORT, "binary.csv"], 3, "binary.csv"),
    ([*IMPORT, "fake.parquet"], 3, "fake.parquet: expected a Parquet file"),
    ([*IMPORT, "fake.db"], 3, "fake.db"),
    ([*COLLECT, "--command", COMMAND], 2, "--space: expected the space of your script"),
    ([*COLLECT, "--space", "mine.yaml", "--command", "python fit.py {lr}"], 2, "none for bs, model"),
    ([*COLLECT, "--space", "mine.yaml", "--command", COMMAND + " {epochs}"], 2, "got {epochs}"),
    ([*COLLECT, "--space", "mine.yaml", "--command", "nosuchprogram {warmstart.config}"], 2, "a program that can be run"),
    ([*COLLECT, "--space", "mine.yaml", "--command", COMMAND, "--objective", "fit:f"], 2, "--command cannot be used with --objective"),
    ([*COLLECT, "--space", "mine.yaml", "--command", COMMAND, "--metric", "accuracy"], 2, "Add --maximize"),
    ([*COLLECT, "--space", "mine.yaml", "--command", COMMAND, "--scale", "any"], 2, "--scale: expected fraction or percent"),
    ([*COLLECT, "--space", "mine.yaml", "--command", COMMAND, "--target-budget", "long"], 2, "--target-budget: expected a number"),
    ([*COLLECT, "--space", "mine.yaml", "--command", COMMAND, "--fraction", "0.5"], 2, "--fraction cannot be used with a script of your own"),
    ([*COLLECT, "--metric", "last"], 2, "expected a command, or --objective, got neither"),
    (["history", "collect", "broken.toml", "--history", "new.h5"], 3, "broken.toml: expected TOML"),
    ([*COLLECT, "--timeout", "soon"], 2, "--timeout: expected a length of time"),
    ([*OWN, "python 'fit.py {lr}"], 2, "quotes or backslash stay open"),
    ([*OWN, COMMAND, "--metric", "regex:acc=("], 2, "--metric: expected a regular expression"),
    ([*OWN, COMMAND, "--initial", "numbers.json"], 3, "expected configurations|--initial"),
    ([*TUNE, "--objective", "fit.py", "--space", "mine.yaml"], 2, "--objective: expected module:function"),
    ([*OWN, COMMAND, "--storage", "fake.db"], 4, "a file of another kind"),
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
