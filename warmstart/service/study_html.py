"""The page of a study as HTML: its best, what runs, pictures, trials, what ran it."""

from __future__ import annotations

from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from warmstart.history_store.extras import has_extra, missing_extra
from warmstart.history_store.quoting import in_json, in_markup, in_python, in_yaml
from warmstart.history_store.space import natural, shown
from warmstart.history_store.wording import in_short, some_of
from warmstart.plots.study import MODELLED, PICTURES, drawable_pictures
from warmstart.service.frame import address_of, page, preformatted, time_element
from warmstart.service.study_list import study_actions
from warmstart.service.trial_table import TrialQuery, trial_table
from warmstart.studies.results.study_commands import SPACE_FILE, command_of_trial, command_to_go_on
from warmstart.studies.results.trial import count_statuses, say_counts
from warmstart.studies.results.trial_span import RUNNING

if TYPE_CHECKING:
    from warmstart.service.auth import Token
    from warmstart.studies.results.study_record import StudyRecord
    from warmstart.studies.results.trial import Trial

MOST_RUNNING = 50
"""Most trials under way that are listed above the pictures."""
LONG_NAME = 60
"""Letters of a name from which on it is written smaller."""


def study_page(record: StudyRecord, query: TrialQuery, token: Token, server: str) -> str:
    """Return the page of a study; raises as `trial_table`.

    Args:
        record: the study.
        query: which of its trials are shown.
        token: of the reader, whose rights decide on the buttons.
        server: address of this server, for commands.
    """
    size = ' class="long"' if len(record.name) > LONG_NAME else ""
    chip = ' <span class="chip">archived</span>' if record.is_archived else ""
    n_trials = len(record.trials) + record.running + record.interrupted
    actions = ""
    if token.allows("run", record.name):
        buttons = study_actions(
            record.name, n_trials, is_archived=record.is_archived, may_delete=token.allows("admin", record.name)
        )
        actions = f'<p class="actions">{buttons}</p>'
    body = (
        f'<p class="crumbs"><a href="../studies">Studies</a> /</p><div class="live" id="head"><h1{size}>{in_markup(record.name)}{chip}</h1>'
        f"{_tiles(record)}</div>{_best(record)}{_running(record)}{_pictures(record)}{_origin(record, server)}"
        f"{trial_table(record, query)}{actions}"
    )
    return page(record.name, body, root="../", live_s=3)


def state_tag(record: StudyRecord) -> str:
    """Return a short text that changes with what the pictures of a study show."""
    running = [(span.number, span.state, len(span.curve)) for span in record.spans if span.end is None]
    best = None if record.best is None else record.best.number
    return sha256(repr((record.name, len(record.trials), record.updated, best, running)).encode()).hexdigest()[:16]


def _tiles(record: StudyRecord) -> str:
    """Return the figures on top: best, trials, under way, changed, by whom."""
    best, metric = record.best, record.shown_metric
    direction = "maximised" if metric.maximize else "minimised"
    if best is not None and best.error is not None:
        value = in_short(metric.to_value(best.error))
        tiles = [(f"best {metric.name}", value, f"{direction} · trial {best.number}")]
    else:
        reason = "every trial failed" if record.trials else "no trial has ended"
        tiles = [(f"best {metric.name}", "–", f"{direction} · {reason}")]
    counts = say_counts(count_statuses(record.trials), record.trials)
    tiles.append(("trials", str(len(record.trials)), counts or "none has ended"))
    if record.running or record.interrupted:
        lost = f"{record.interrupted} interrupted" if record.interrupted else ""
        tiles.append(("under way", str(record.running), lost))
    cells = [
        f'<div class="tile"><dt>{in_markup(name)}</dt><dd><strong>{in_markup(value)}</strong><small>{in_markup(note)}</small></dd></div>'
        for name, value, note in tiles
    ]
    changed = max((time for span in record.spans for time in (span.start, span.end) if time is not None), default=None)
    if changed is not None:
        cells.append(
            f'<div class="tile"><dt>changed</dt><dd><strong>{time_element(datetime.fromtimestamp(changed, UTC))}</strong></dd></div>'
        )
    if record.owner is not None:
        cells.append(f'<div class="tile"><dt>begun by</dt><dd><strong>{in_markup(record.owner)}</strong></dd></div>')
    expected = f'<p class="hint">{in_markup(record.expected_line)}</p>' if record.expected_line else ""
    return f'<dl class="tiles">{"".join(cells)}</dl>{expected}'


def _best(record: StudyRecord) -> str:
    """Return the best configuration, and buttons that copy it."""
    best = record.best
    if best is None:
        failed = [trial for trial in record.trials if trial.note]
        last = f"The last reason: {in_markup(failed[-1].note)}" if failed else ""
        return f'<section class="live" id="best"><p class="empty">{last or "No result yet: the best configuration stands here then."}</p></section>'
    rows = "".join(
        f"<div><dt>{in_markup(name)}</dt><dd>{in_markup(in_short(value))}</dd></div>"
        for name, value in shown(best.config).items()
    )
    texts = _texts(record, best)
    copies = "".join(f'<button type="button" data-copy="copy-{kind}">{label}</button>' for kind, label, _ in texts)
    hidden = "".join(preformatted(text, f"copy-{kind}", hidden=True) for kind, _, text in texts)
    return (
        f'<section class="live" id="best"><h2>Best configuration</h2><dl class="pairs">{rows}</dl>'
        f'<p class="copies">Copy as {copies}</p>{hidden}</section>'
    )


def _texts(record: StudyRecord, best: Trial) -> list[tuple[str, str, str]]:
    """Return the best configuration in each form: kind, label, text."""
    # As its own space has it, with values behind logarithms beside them, so that a program finds either.
    config: dict[str, Any] = {**natural(best.config), **best.config}
    texts = [
        ("yaml", "YAML", in_yaml(config).rstrip("\n")),
        ("json", "JSON", in_json(config)),
        ("python", "Python", in_python(config)),
    ]
    command = command_of_trial(record, best)
    return texts if command is None else [("command", "command", command), *texts]


def _running(record: StudyRecord) -> str:
    """Return the trials under way, with what they last reported."""
    spans = [span for span in record.spans if span.state == RUNNING]
    if not spans:
        return '<section class="live" id="running"></section>'
    metric = record.metric
    rows = []
    for span in spans[:MOST_RUNNING]:
        last = ""
        if span.curve:
            step, error = span.curve[-1]
            last = f"{in_short(metric.to_value(error))} at step {step:.12g}"
        start = "" if span.start is None else time_element(datetime.fromtimestamp(span.start, UTC))
        config = ", ".join(f"{name} {in_short(value)}" for name, value in shown(span.config).items())
        rows.append(
            f'<tr><th scope="row">{span.number}</th><td>{in_markup(last)}</td><td>{start}</td><td>{in_markup(span.worker or "")}</td>'
            f'<td class="wrap">{in_markup(config)}</td></tr>'
        )
    heads = "".join(
        f'<th scope="col">{head}</th>' for head in ("trial", in_markup(metric.name), "since", "by", "configuration")
    )
    more = "" if len(spans) <= MOST_RUNNING else f'<p class="hint">And {len(spans) - MOST_RUNNING} more.</p>'
    return (
        f'<section class="live" id="running"><h2>Under way</h2><div class="scroll"><table><thead><tr>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>{more}</section>"
    )


def _pictures(record: StudyRecord) -> str:
    """Return the pictures: those of the surrogate, which takes seconds, are drawn when they are opened."""
    names = drawable_pictures(record)
    if not names:
        return '<section class="live" id="pictures"></section>'
    if not has_extra("plots"):
        text = in_markup(missing_extra("plots", "A page with pictures").message)
        return f'<section id="pictures"><h2>Pictures</h2><p class="hint">{text}</p></section>'
    tag = state_tag(record)
    figures = {name: _figure(record, name, tag) for name in names}
    first = "".join(figure for name, figure in figures.items() if name not in MODELLED)
    later = "".join(figure for name, figure in figures.items() if name in MODELLED)
    if later:
        later = f'<details id="matters"><summary>Which hyperparameters matter?</summary><p class="hint">By the study\'s surrogate, which takes some seconds.</p><div class="figures">{later}</div></details>'
    return f'<section class="live" id="pictures"><h2>Pictures</h2><div class="figures">{first}</div>{later}</section>'


def _figure(record: StudyRecord, name: str, tag: str) -> str:
    caption = in_markup(PICTURES[name])
    address = in_markup(f"{address_of(record.name)}/{name}.svg?v={tag}")
    wide = " wide" if name in ("parallel", "slices") else ""
    return (
        f'<figure class="drawn-{name}{wide}"><a href="{address}"><img class="drawn" loading="lazy" alt="{caption}" '
        f'src="{address}"></a><figcaption>{caption}</figcaption></figure>'
    )


def _origin(record: StudyRecord, server: str) -> str:
    """Return what ran the study, and how to go on."""
    plan = record.plan
    workers = list(dict.fromkeys(span.worker for span in record.spans if span.worker))
    facts: dict[str, Any] = {
        "Objective": record.evaluated or None,
        "Dataset": record.dataset,
        "Search": ", ".join(f"{name} {value}" for name, value in (record.settings or {}).items()),
        "Warm start": None if plan is None or not plan.configs else plan.summary()["warm"],
        "Together with": None if plan is None else some_of([name for name in plan.members if name != record.name]),
        "Run by": some_of(workers) or None,
        "Made by": None if plan is not None else "another program that uses Optuna",
    }
    lines = "".join(f"<dt>{in_markup(name)}</dt><dd>{in_markup(value)}</dd>" for name, value in facts.items() if value)
    command = command_to_go_on(record, server)
    if command is not None:
        space = f"{address_of(record.name)}/{SPACE_FILE}"
        file = "" if SPACE_FILE not in command else f', with <a href="{space}" download>{SPACE_FILE}</a>'
        copy = '<button type="button" data-copy="go-on">Copy</button>'
        step = f"<p>Go on, on as many machines as you like{file}: {copy}</p>{preformatted(command, 'go-on')}"
    elif plan is not None and not plan.members:
        program = f"study = warmstart.Client({server!r}).study({record.name!r})\nwhile (trial := study.ask()) is not None:\n    trial.tell(objective(trial.config))"
        copy = '<button type="button" data-copy="go-on">Copy</button>'
        step = f"<p>Go on, in Python, on as many machines as you like: {copy}</p>{preformatted(program, 'go-on')}"
    else:
        step = '<p class="hint">The command that began it goes on with it.</p>' if plan is not None else ""
    return f'<section class="live" id="origin"><h2>What ran it</h2><dl class="facts">{lines}</dl>{step}</section>'
