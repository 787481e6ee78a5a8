"""Run the command line: errors to messages and exit codes, interrupts, broken pipes, warnings."""

import atexit
import codecs
import errno
import gc
import io
import itertools
import json
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import TextIO

from warmstart.cli.errors import error_text
from warmstart.cli.record_run import plain_call, record_run
from warmstart.cli.shell import columns, wrapped
from warmstart.cli.spelling import FORMER_NAMES, with_hint, with_near
from warmstart.cli.table import escape_unencodable
from warmstart.history_store.errors import StorageError, StorageFullError, WarmstartError
from warmstart.history_store.extras import extra_of
from warmstart.history_store.quoting import in_line
from warmstart.history_store.wording import in_words
from warmstart.status import INTERRUPTED, SUCCESS, UNEXPECTED, USAGE, exit_code

COMPLETING = "_WARMSTART_COMPLETE"
"""Environment variable by which a shell asks for completions."""
_TO_BEGIN = """\
A classifier of your pictures (a folder with a folder a class):
  warmstart classify photos/

The best settings of your own training script:
  warmstart tune --command "python train.py --lr {lr}" --space space.yaml

All commands: warmstart --help. Pictures to try with: warmstart example photos/
"""
GC_THRESHOLD = 50_000
"""Threshold of the garbage collector: importing torch creates many objects, and all of them stay."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    The result goes to stdout, everything else to stderr. An error is one line, or with ``--format json`` one object
    ``{"error": {"type", "message", "exit_code"}}`` and, where arguments are at fault, their names as ``params``; its traceback is shown under ``-vv`` alone.

    Args:
        argv: the arguments; those of the process when left out.

    Returns: the exit code.
    """
    if argv is None:
        _open_streams()
        _handle_signals()
        gc.set_threshold(GC_THRESHOLD)
        # At the end, a search for cycles among all that torch loaded takes a second.
        atexit.register(gc.freeze)
    args = _with_present_name(list(sys.argv[1:] if argv is None else argv))
    as_json, trace = _wants_json(args), _wants_trace(args)
    if argv is None and as_json and not trace:
        _keep_libraries_out()
    if argv is None:
        _escape_unencodable()
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _drop_warning if _wants_quiet(args) else _show_once()
            code = _run(args)
            sys.stdout.flush()
    except (BrokenPipeError, SystemExit) as error:
        # The completions are written: flush, as the shell reads them.
        if isinstance(error, SystemExit) and COMPLETING in os.environ:
            sys.stdout.flush()
            return SUCCESS
        # The reader of our output left (`| head`), which Typer turns into an exit: nothing is wrong, and the
        # interpreter must not flush into the void.
        _write_to_nowhere(sys.stdout)
        return SUCCESS
    except KeyboardInterrupt:
        return _report_interrupt(argv, as_json=as_json)
    except Exception as error:  # noqa: BLE001  the last stop before the shell: whatever comes is reported, never a traceback
        # A plain `history record` runs without Typer, and then raises none of its errors.
        typer = sys.modules.get("typer")
        if typer is not None and isinstance(error, typer.Abort):
            return _report_interrupt(argv, as_json=as_json)
        # The base of BadParameter is Click's UsageError, which Typer does not export.
        if typer is not None and isinstance(error, typer.BadParameter.__mro__[1]):
            return _report_wrong_call(error, args, as_json=as_json)
        if trace:
            import traceback

            traceback.print_exc()
        return _report_error(_in_our_words(error), args, as_json=as_json)
    # Typer turns Ctrl-C into this exit code.
    if code == INTERRUPTED:
        return _report_interrupt(argv, as_json=as_json)
    return code if isinstance(code, int) else SUCCESS


def _open_streams() -> None:
    """Open what the caller closed (`>&-`) to nowhere, so that no file takes its number and nothing has to ask for it."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "r" if number == 0 else "w", encoding="utf-8", closefd=False))  # noqa: SIM115


def _keep_libraries_out() -> None:
    """Give stderr a file descriptor of its own, so that what C libraries write to number 2 does not stand beside JSON."""
    sys.stderr = open(os.dup(2), "w", encoding=sys.stderr.encoding, errors=sys.stderr.errors, buffering=1)  # noqa: PTH123,SIM115
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def _write_to_nowhere(stream: TextIO) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _in_our_words(error: Exception) -> Exception:
    """Return an error of the system as one of ours: a full disk, a path that cannot be used; any other error as it is."""
    if isinstance(error, RuntimeError) and str(error).startswith("Symlink loop"):  # of pathlib before Python 3.13
        error = OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    if isinstance(error, WarmstartError) or not isinstance(error, OSError) or error.errno is None:
        return error
    if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO):
        head = "" if error.filename is None else f"{error.filename}: "
        msg = f"{head}expected what can be opened here, got {in_words(error)}. Check the path, and who may use it."
        return StorageError(msg)
    # What is left in the buffer must not be tried again at the end.
    _write_to_nowhere(sys.stdout)
    msg = f"expected room for the result, got {in_words(error)}. Make room, or write it elsewhere."
    return StorageFullError(msg)


def _run(args: list[str]) -> object:
    """Run a command; a plain `history record` runs without Typer, which loads slowly."""
    call = None if COMPLETING in os.environ else plain_call(args)
    if call is not None:
        record_run(call)
        return SUCCESS
    if not args and COMPLETING not in os.environ:
        sys.stderr.write(_TO_BEGIN)
        return USAGE
    from warmstart.cli.app import make_app

    command = None if COMPLETING in os.environ else named_command(args)
    return make_app(command)(args=args, prog_name="warmstart", standalone_mode=False)


def _with_present_name(args: list[str]) -> list[str]:
    """Return the arguments with the present name of the command; a former one is noted."""
    if not args or (name := FORMER_NAMES.get(args[0])) is None:
        return args
    if not (_wants_json(args) or _wants_quiet(args)):
        sys.stderr.write(f"`{args[0]}` is called `{name}` now; the old name goes with the next version.\n")
    return [name, *args[1:]]


def named_command(args: Sequence[str]) -> tuple[str, ...] | None:
    """Return the words of a command line that name its command.

    Returns: the command, or a group and its command; a group alone, or nothing, where the call can only show help; None where
    an option precedes the command, as the next word may be its value.
    """
    from warmstart.cli.app import GROUPS

    words = tuple(itertools.takewhile(lambda arg: not arg.startswith("-"), args[:2]))
    is_whole = len(words) == 2 or (len(words) == 1 and words[0] not in GROUPS)
    alone = [arg for arg in args[len(words) :] if arg not in ("-h", "--help", "--version")]
    return words if is_whole or not alone else None


def _report_interrupt(argv: Sequence[str] | None, *, as_json: bool) -> int:
    """Report an interrupt by Ctrl-C or a signal; return the exit code."""
    _ignore_interrupts(argv)
    _report("Interrupted", "Interrupted.", INTERRUPTED, as_json=as_json)
    return INTERRUPTED


def _report_wrong_call(error: Exception, args: Sequence[str], *, as_json: bool) -> int:
    """Report a wrong call as Typer describes it; return the exit code."""
    message = getattr(error, "format_message", error.__str__)()
    context = getattr(error, "ctx", None)
    usage = "" if context is None else context.get_usage()
    # Without a command: the help is the answer.
    if type(error).__name__ == "NoArgsIsHelpError" or not message:
        sys.stderr.write(context.get_help() + "\n" if context else "")
        return USAGE
    message += _typed_value(getattr(error, "param", None), args) if "Input should be" in message else ""
    _report("UsageError", message, USAGE, as_json=as_json, prelude=usage)
    return USAGE


def _report_error(error: Exception, args: Sequence[str], *, as_json: bool) -> int:
    """Report any other error; return its exit code."""
    error = extra_of(error) or error
    code = exit_code(error)
    message = (
        error_text(error, named_command(args))
        if code != UNEXPECTED
        else f"unexpected {type(error).__name__}: {error}. Run again with -vv and report it."
    )
    if isinstance(error, WarmstartError) and error.choices:
        message = with_near(message, error.given, list(error.choices))
    _report(type(error).__name__, message, code, as_json=as_json, params=getattr(error, "params", ()))
    return code


def _typed_value(param: object, args: Sequence[str]) -> str:
    """Return ", got VALUE" for the last value of an option; empty for one that takes several."""
    typed = []
    for i, arg in enumerate(args):
        for option in getattr(param, "opts", ()):
            if arg == option and i + 1 < len(args):
                typed.append(args[i + 1])
            elif arg.startswith(f"{option}=") or (arg.startswith(option) and not option.startswith("--")):
                typed.append(arg.removeprefix(option).removeprefix("="))
    if not typed or (len(typed) > 1 and getattr(param, "multiple", False)):
        return ""
    return f", got {typed[-1]!r}"


def _handle_signals() -> None:
    """Treat SIGTERM and SIGHUP like Ctrl-C, unless ignored."""
    if threading.current_thread() is not threading.main_thread():
        return
    for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):  # Windows has no SIGHUP
        # nohup sets SIG_IGN: an ignored signal stays ignored.
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)


def _escape_unencodable() -> None:
    """Write characters that the encoding of stdout or stderr lacks as escapes instead of failing."""
    codecs.register_error("warmstart", escape_unencodable)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and codecs.lookup(stream.encoding).name != "utf-8":
            stream.reconfigure(errors="warmstart")


def _ignore_interrupts(argv: Sequence[str] | None) -> None:
    """Ignore further Ctrl-C while the process ends, as a second one would change its exit code."""
    if argv is None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _report(
    kind: str, message: str, code: int, *, as_json: bool, prelude: str = "", params: Sequence[str] = ()
) -> None:
    """Write one error to stderr, wrapped at the width of a terminal; without room there, the exit code alone tells."""
    message = with_hint(" ".join(message.split()))
    if as_json:
        about = {"params": list(params)} if params else {}
        text = json.dumps({"error": {"type": kind, "message": message, "exit_code": code, **about}})
    else:
        text = wrapped(in_line(f"error: {message}"), columns(sys.stderr))
        text = f"{prelude}\n{text}" if prelude else text
    try:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
    except OSError:
        _write_to_nowhere(sys.stderr)


def _wants_json(args: Sequence[str]) -> bool:
    """Tell whether errors shall be JSON, also for a command line that cannot be parsed."""
    pairs = zip(["", *args], args, strict=False)
    return any(
        arg in ("--format=json", "-fjson") or (before in ("--format", "-f") and arg == "json") for before, arg in pairs
    )


def _wants_trace(args: Sequence[str]) -> bool:
    """Tell whether ``-vv`` was given, in any spelling."""
    short = sum(arg.count("v") for arg in args if arg.startswith("-v") and set(arg[1:]) == {"v"})
    return short + sum(arg == "--verbose" for arg in args) >= 2


def _wants_quiet(args: Sequence[str]) -> bool:
    """Tell whether only errors shall be written."""
    return any(arg in ("-q", "--quiet") for arg in args)


def _drop_warning(*_all: object, **_more: object) -> None:
    """Drop a warning."""


def _show_once() -> Callable[..., None]:
    """Return a handler that writes each warning once, as one line without its code location."""
    texts: set[str] = set()

    def show(message: Warning | str, *_place: object, **_more: object) -> None:
        if (text := str(message)) not in texts:
            texts.add(text)
            sys.stderr.write(in_line(f"warning: {text}") + "\n")

    return show
