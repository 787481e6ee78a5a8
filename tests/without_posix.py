"""Run the command line as on a system without POSIX: `python tests/without_posix.py suggest ...`.

What the package imports has no POSIX names: no `fcntl`, no `os.fork`, no `signal.SIGHUP`; other packages keep them.
Files are locked by a stand-in for `msvcrt`. A file that is open or mapped can be neither replaced nor removed, as on
Windows.
"""

from __future__ import annotations

import builtins
import errno
import importlib
import os
import pathlib
import sys
import types
from collections.abc import Callable
from typing import Any

MODULES = {"fcntl", "grp", "pty", "pwd", "resource", "termios", "tty", "syslog", "posix"}
NAMES = {
    "os": """O_CLOEXEC O_NONBLOCK O_NOFOLLOW O_DIRECTORY O_SYNC O_DSYNC WNOHANG chown chroot fchdir fchmod fchown fork forkpty
        getegid geteuid getgid getgroups getpgid getpgrp getsid getuid killpg lchown lockf major minor mkfifo mknod nice
        pipe2 posix_fadvise posix_fallocate posix_spawn pread preadv pwrite pwritev register_at_fork sched_getaffinity
        sched_setaffinity sendfile setegid seteuid setgid setpgid setsid setuid statvfs sync sysconf uname wait wait3
        wait4 WIFSIGNALED WIFEXITED WTERMSIG""",
    "signal": """SIGALRM SIGCHLD SIGCONT SIGHUP SIGKILL SIGPIPE SIGQUIT SIGSTOP SIGTSTP SIGUSR1 SIGUSR2 SIG_BLOCK
        SIG_SETMASK SIG_UNBLOCK alarm pause pthread_kill pthread_sigmask setitimer sigwait""",
    "socket": "AF_UNIX MSG_NOSIGNAL SO_REUSEPORT",
}
"""Names of modules that Windows lacks."""


class _Without(types.ModuleType):
    """A module that lacks some of its names."""

    def __init__(self, module: types.ModuleType, missing: set[str]) -> None:
        super().__init__(module.__name__)
        self.__dict__.update({name: value for name, value in vars(module).items() if name not in missing})


def _msvcrt() -> types.ModuleType:
    fcntl = importlib.import_module("fcntl")
    module = types.ModuleType("msvcrt")

    def locking(fd: int, kind: int, n_bytes: int) -> None:
        try:
            fcntl.lockf(fd, kind, n_bytes, os.lseek(fd, 0, os.SEEK_CUR))
        except BlockingIOError:
            raise PermissionError(errno.EACCES, "Permission denied") from None

    module.__dict__.update(
        LK_NBLCK=fcntl.LOCK_EX | fcntl.LOCK_NB, LK_LOCK=fcntl.LOCK_EX, LK_UNLCK=fcntl.LOCK_UN, locking=locking
    )
    return module


def _is_ours(depth: int) -> bool:
    return str(sys._getframe(depth).f_globals.get("__name__", "")).partition(".")[0] == "warmstart"


def _is_in_use(path: object) -> bool:
    """Tell whether this process has a file open or mapped."""
    real = os.path.realpath(os.fspath(path))  # type: ignore[arg-type]
    if any(os.path.realpath(number) == real for number in pathlib.Path("/proc/self/fd").iterdir()):
        return True
    maps = pathlib.Path("/proc/self/maps").read_text(errors="replace")
    return any(line.endswith(f" {real}") for line in maps.splitlines())


def _guarded(call: Callable[..., Any]) -> Callable[..., Any]:
    def guarded(source: Any, *more: Any, **options: Any) -> Any:
        if _is_ours(2):
            for path in (source, *more[:1]):
                if isinstance(path, str | os.PathLike) and _is_in_use(path):
                    raise PermissionError(errno.EACCES, "The process cannot access the file: it is in use", str(path))
        return call(source, *more, **options)

    return guarded


def install() -> None:
    """Take the names away, for the package alone."""
    stand_in = _msvcrt()
    for name in ("replace", "rename", "unlink", "remove"):
        setattr(os, name, _guarded(getattr(os, name)))
    for name in ("replace", "rename", "unlink"):
        setattr(pathlib.Path, name, _guarded(getattr(pathlib.Path, name)))
    lacking = {name: _Without(importlib.import_module(name), set(names.split())) for name, names in NAMES.items()}
    importing, import_module = builtins.__import__, importlib.import_module

    def find(name: str) -> types.ModuleType | None:
        if name in MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return stand_in if name == "msvcrt" else lacking.get(name)

    def as_on_windows(name: str, *more: Any, **options: Any) -> Any:
        return (find(name) if _is_ours(2) else None) or importing(name, *more, **options)

    def module_as_on_windows(name: str, package: str | None = None) -> Any:
        return (find(name) if _is_ours(2) else None) or import_module(name, package)

    builtins.__import__ = as_on_windows
    importlib.import_module = module_as_on_windows


def main() -> None:
    """Run the command line."""
    install()
    from warmstart.cli import main as run

    sys.argv[0] = "warmstart"
    sys.exit(run())


if __name__ == "__main__":
    main()
