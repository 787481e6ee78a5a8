import json
import math
import shlex
import sys

import pytest

from warmstart.history_store.errors import UsageError
from warmstart.studies.execution.trial_process import TrialRunner
from warmstart.studies.objectives.command import CommandObjective, fill_placeholders
from warmstart.studies.objectives.load import load_objective
from warmstart.studies.objectives.metric import Metric
from warmstart.studies.objectives.result import read_result

NAMES = ("log10_learning_rate", "momentum")
CONFIG = {"log10_learning_rate": -2.0, "momentum": 0.5}
NAMED = "; `score` NAME, or `loss` NAME, takes what it prints after a name"


def run(code, arguments="{config}", config=CONFIG, **options):
    limits = {name: options.pop(name) for name in ("budget", "report", "timeout", "memory") if name in options}
    command = f"{sys.executable} -c {shlex.quote(code)} {arguments}"
    with TrialRunner(CommandObjective(command, NAMES, **options)) as runner:
        return runner.run(config, seed=7, **limits)


def test_placeholders_are_filled_and_the_last_line_is_the_result():
    outcome = run(
        "import sys, json; print('epoch 1'); print(json.dumps({'error': 0.25, 'duration': 9, 'constraints': {'fits': False},"
        " **dict(zip('abcde', map(float, sys.argv[1:])))}))",
        "{learning_rate} {log10_learning_rate} {momentum} {seed} {budget}",
        budget=3.0,
    )
    assert (outcome.error, outcome.duration, outcome.constraints) == (0.25, 9.0, {"fits": 1.0})
    assert outcome.metrics == {"a": 0.01, "b": -2.0, "c": 0.5, "d": 7.0, "e": 3.0}


def test_the_trials_own_placeholders_have_long_forms():
    outcome = run(
        "import sys, json; a, b, c, d = sys.argv[1:]; print(json.dumps({'error': json.loads(d)['learning_rate'], 'a': float(a), 'b': float(b), 'c': len(c)}))",
        "{warmstart.seed} {warmstart.budget} {warmstart.dataset} {warmstart.config}",
        budget=3.0,
        dataset="my photos",
    )
    assert (outcome.error, outcome.metrics) == (0.01, {"a": 7.0, "b": 3.0, "c": 9.0})


def test_a_hyperparameter_named_seed_is_never_the_seed_of_the_trial():
    code = "import sys, json; print(json.dumps({'error': 0.1, **dict(zip('abcd', map(float, sys.argv[1:])))}))"
    config = {"seed": 0.5, "log10_budget": -2.0}
    arguments = "{warmstart.seed} {space.seed} {space.budget} {space.log10_budget}"
    objective = CommandObjective(f"{sys.executable} -c {shlex.quote(code)} {arguments}", tuple(config))
    outcome = read_result(objective(config, seed=7, budget=None, report=lambda step, error: None), 0.0)
    assert outcome.metrics == {"a": 7.0, "b": 0.5, "c": 0.01, "d": -2.0}
    whole = CommandObjective(f"{sys.executable} -c {shlex.quote(code)} {{warmstart.config}}", ("config", "dataset"))
    assert json.loads(
        fill_placeholders(["{warmstart.config}"], whole._values({"config": 1, "dataset": 2}, 0, None))[0]
    ) == {
        "config": 1,
        "dataset": 2,
    }


@pytest.mark.parametrize("name", ["seed", "budget", "dataset", "config"])
def test_a_short_form_that_may_be_either_is_refused(name):
    for names in ((name,), (f"log10_{name}",), (name, "x")):
        message = rf"^command: expected {{warmstart\.{name}}} for the trial's {name} or {{space\.{name}}} for the hyperparameter of that name, got {{{name}}}"
        with pytest.raises(UsageError, match=message):
            CommandObjective(f"python t.py {{{name}}} {{x}}".replace(" {x}", " {x}" if "x" in names else ""), names)
    with pytest.raises(
        UsageError, match=rf"got none for {name}. Add {{space\.{name}}}, or {{warmstart\.config}} for all"
    ):
        CommandObjective("python t.py {x}", (name, "x"))


def test_names_with_dots_are_left_out_where_they_are_inactive():
    objective = CommandObjective("python t.py --m {optimizer.momentum} o={optimizer} b={warmstart.budget}", ("optimizer.momentum", "optimizer"))  # fmt: skip
    values = objective._values({"optimizer": "adam"}, 0, None)
    assert fill_placeholders(objective._words, values, objective.names) == ["python", "t.py", "o=adam"]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("x --lr {lr} --m {m}", "x --lr 0.1"),
        ("x --lr={lr} --m={m}", "x --lr=0.1"),
        ("x lr={lr} m={m} -v", "x lr=0.1 -v"),
        ("x {m} {lr}", "x 0.1"),
        ("x -v name={m}", "x -v"),
        ('x \'{"lr": {lr}, "deep": {"a": 1}}\'', 'x {"lr": 0.1, "deep": {"a": 1}}'),
        ("x {svm:C} ${svm:C}", "x 5 $5"),
    ],
)
def test_an_argument_without_a_value_is_left_out(command, words):
    filled = fill_placeholders(shlex.split(command), {"lr": "0.1", "svm:C": "5"})
    assert " ".join(filled) == words


def test_a_value_is_one_argument_whatever_it_holds():
    config = CONFIG | {"momentum": "a b; exit 3 {seed} $HOME"}
    outcome = run(
        "import sys; print(len(sys.argv) + len(sys.argv[1]) / 100)", "{momentum} {learning_rate}", config=config
    )
    assert outcome.error == 3 + len("a b; exit 3 {seed} $HOME") / 100


def test_true_is_written_as_python_does_and_a_flag_is_a_choice():
    objective = CommandObjective("python t.py {augment} {nesterov}", ("augment", "nesterov"))
    values = objective._values({"augment": True, "nesterov": "--no-nesterov"}, 0, None)
    assert fill_placeholders(objective._words, values) == ["python", "t.py", "True", "--no-nesterov"]


def test_the_dataset_and_the_whole_configuration():
    code = "import sys, json; c = json.loads(sys.argv[1]); print(c['momentum'] if sys.argv[2] == 'my photos' else 9)"
    assert run(code, "{config} {dataset}", dataset="my photos").error == 0.5


def test_lines_of_steps_are_reports_at_once():
    heard = []
    code = (
        "import json, time\n"
        "for step in range(50):\n"
        "    print('rubbish {', step); print(json.dumps({'step': step, 'error': 1 / (step + 1), 'time': 3})); time.sleep(0.02)\n"
    )
    outcome = run(code, report=lambda step, error: heard.append(step) or step >= 3)
    assert outcome.status == "pruned"
    assert outcome.curve == ((0, 1), (1, 1 / 2), (2, 1 / 3), (3, 1 / 4))
    assert heard == [0, 1, 2, 3]


def test_a_bar_of_rich_reports_each_epoch():
    code = (
        "from rich.progress import BarColumn, Progress, TextColumn\n"
        "with Progress('Epoch {task.fields[epoch]}/3', BarColumn(), 'x' * 60, 'val_acc: {task.fields[acc]}') as bar:\n"
        "    task = bar.add_task('', epoch=0, acc=0)\n"
        "    for epoch in (1, 2, 3):\n"
        "        bar.update(task, epoch=epoch, acc=epoch / 4, refresh=True)\n"
    )
    outcome = run(code, metric=Metric("named:val_acc", maximize=True), report=lambda step, value: False)
    assert [step for step, _ in outcome.curve][-3:] == [1, 2, 3]
    assert outcome.error == 0.25


@pytest.mark.parametrize(
    ("line", "heard", "logged"),
    [
        ('{"step": 3, "error": 0.5}', [(3.0, 0.5)], False),
        ('{"step": "3", "error": "0.5"}', [(3.0, 0.5)], False),
        ('{"step": 1%s, "error": 0.5}' % ("0" * 400), [(math.inf, 0.5)], False),
        ('{"step": -1, "error": 0.5}', [(-1.0, 0.5)], False),
        ('{"step": true, "error": 0.5}', [], True),
        ('{"step": "three", "error": 0.5}', [], True),
        ('{"step": 3, "error": null}', [], True),
        ('{"step": 3}', [], False),
        ("{rubbish", [], False),
    ],
)
def test_a_line_is_a_report_where_step_and_error_are_numbers(line, heard, logged, capsys):
    reports = []
    objective = CommandObjective(f"echo '{line}'", ())
    objective({}, seed=0, budget=None, report=lambda step, error: reports.append((step, error)))
    assert reports == heard
    assert ("no report: expected a step and an error that are numbers, got {" in capsys.readouterr().err) is logged


@pytest.mark.parametrize(
    ("step", "told"), [("NaN", "a finite step below 2^63"), ("1e30", "a finite step"), ("-1", "a step of 0 or more")]
)
def test_a_printed_step_that_cannot_be_kept_fails_the_trial(step, told):
    outcome = run(f'print(\'{{"step": {step}, "error": 0.5}}\'); print(0.3)')
    assert (outcome.status, outcome.curve) == ("failed", ())
    assert told in outcome.note


def test_a_last_line_of_a_step_is_the_result_too():
    outcome = run('print(\'{"step": 3, "error": 0.5}\\n\')')
    assert (outcome.error, outcome.curve, outcome.metrics) == (0.5, ((3, 0.5),), {})


@pytest.mark.parametrize(
    ("code", "status", "note"),
    [
        ("", "failed", "expected the error as JSON on the last line of its output, got no line"),
        ("print('error: 0.3')", "failed", "expected the error as JSON on the last line of its output, got 'error: 0.3'; `loss` error reads 'error: 0.3'"),
        ("print('Val Acc: 71%, loss: 0.3'); print('3 files')", "failed", "expected the error as JSON on the last line of its output, got '3 files'; `score` Val_Acc reads 'Val Acc: 71%, loss: 0.3'"),
        ("print('epoch 1'); print('saved')", "failed", "expected the error as JSON on the last line of its output, got 'saved'" + NAMED),
        ("print(1); print('3 files')", "failed", "expected the error as JSON on the last line of its output, got '3 files'; `metric` last takes the last number printed; add `maximize` where larger is better"),
        ("print(float('nan'))", "failed", f"expected the error as JSON on the last line of its output, got 'nan'{NAMED}"),
        ("print('NaN')", "failed", "expected an error that is one finite number, got nan"),
        ("print('[0.1, 0.2]')", "failed", "expected an error that is one finite number, got [0.1, 0.2]"),
        ("print('{\"loss\": 1}')", "failed", "expected a mapping with an error, got {'loss': 1}; `metric` 'loss' takes that key"),
        ("print('[' * 10**6)", "failed", f"expected the error as JSON on the last line of its output, got '{'[' * 80}'{NAMED}"),
        ("import os; os.write(1, b'\\xff\\xfe')", "failed", f"expected the error as JSON on the last line of its output, got '��'{NAMED}"),
        ("print(0.1); 1 / 0", "crashed", f"{sys.executable} ended with 1: ZeroDivisionError: division by zero"),
        ("import os; os.kill(os.getpid(), 9)", "killed", f"{sys.executable} was killed by SIGKILL"),
    ],
)  # fmt: skip
def test_a_command_that_gives_no_error(code, status, note):
    objective = CommandObjective(f"{sys.executable} -c {shlex.quote(code)} {{config}}", NAMES)
    outcome = read_result(objective(CONFIG, seed=0, budget=None, report=lambda step, error: None), 0.0)
    assert (outcome.error, outcome.status, outcome.note) == (None, status, note)


def test_limits_hold_for_the_command():
    assert run("import time; time.sleep(60)", timeout=0.5).status == "timeout"
    assert run("import time; x = bytearray(b'x') * (500 << 20); time.sleep(60)", memory=300 << 20).status == "oom"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("python 'train.py", r"^command: expected a command as typed in a shell, got .*, whose quotes or backslash stay open"),
        ("python {config} {lerning_rate}", r"^command: expected placeholders among .*learning_rate.*, got {lerning_rate}"),
        ("python {learning_rate}", r"none for momentum. Add {momentum}, or {warmstart.config}"),
        ("python {config} {warmstart.sed}", r"^command: expected placeholders among .*warmstart.seed.*, got {warmstart.sed}"),
        ("python {config} {warmstart.dataset}", r"^command: {warmstart.dataset} needs `dataset`"),
        ("python {momentum}", r"none for log10_learning_rate. Add {learning_rate}, or"),
        ("python {config} {dataset}", r"^command: {dataset} needs `dataset`"),
        ("cd sub && python t.py {config}", r"^command: expected a program and its arguments, got 'cd', which only a shell understands.* bash -c"),
        ("LR=3 python t.py {config}", r"got 'LR=3', which only a shell"),
        ("python t.py {config} | tail -1", r"got '\|', which only a shell"),
        ("echo 3; rm {config}", r"got '3;', which only a shell"),
        ("python t.py {config} 2>/dev/null", r"got '2>/dev/null', which only a shell"),
        ("python t.py {config} --out $HOME/x", r"got '\$HOME/x', which only a shell"),
        ("python t.py {config} --data ~/x", r"got '~/x', which only a shell"),
        ("surely-not-there {config}", r"^command: expected a program that can be run, got 'surely-not-there'"),
    ],
)  # fmt: skip
def test_a_command_that_cannot_be_run(command, message):
    with pytest.raises(UsageError, match=message):
        CommandObjective(command, NAMES)
    with pytest.raises(UsageError):
        CommandObjective("", ())
    with pytest.raises(UsageError, match=r"^command: expected no hyperparameter that is named like {warmstart.seed}"):
        CommandObjective("python {config}", ("warmstart.seed",))


def test_one_kind_of_objective_is_named():
    assert isinstance(load_objective(command="echo {config}", names=NAMES), CommandObjective)
    with pytest.raises(UsageError, match=r"^tune: `objective` and `command` cannot be used together"):
        load_objective("a:b", command="c", names=NAMES)
    with pytest.raises(UsageError, match=r"^Give your script with `command`"):
        load_objective(names=NAMES)


def test_a_name_with_a_space_needs_quotes():
    with pytest.raises(UsageError, match=r"got none for use bn\. Add '\{use bn\}' in quotes, or"):
        CommandObjective("echo {use bn}", ["use bn"])
    objective = CommandObjective("echo '{use bn}'", ["use bn"])
    assert fill_placeholders(objective._words, {"use bn": "True"}, ["use bn"]) == ["echo", "True"]


def test_a_missing_value_removes_an_option_of_the_command_alone():
    words = ["t.py", "--opt", "{optimizer}", "{augment}", "{nesterov}", "--budget", "{warmstart.budget}"]
    values = {"optimizer": "adam", "augment": "--augment"}
    assert fill_placeholders(words, values) == ["t.py", "--opt", "adam", "--augment"]
    assert fill_placeholders(["t.py", "--log-lr", "{lr}", "{nesterov}"], {"lr": "-2.9"}) == ["t.py", "--log-lr", "-2.9"]


@pytest.mark.parametrize(
    ("printed", "stream", "code", "status"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", "stderr", 1, "oom"),
        ("jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying", "stdout", 1, "oom"),
        ("RuntimeError: CUDA error: device-side assert triggered", "stderr", 1, "crashed"),
        ("CUDA out of memory: halving the batch", "stderr", 0, "ok"),
    ],
)
def test_a_command_that_ends_for_lack_of_memory_is_told_apart(printed, stream, code, status):
    lines = f"import sys; print({printed!r}, file=sys.{stream}); print('bye', file=sys.stderr); print(0.5); sys.exit({code})"
    outcome = run(lines)
    assert (outcome.status, outcome.constraints) == (status, {"memory": 1.0} if status == "oom" else {})
    assert (printed[:30] in outcome.note) == (status == "oom")
