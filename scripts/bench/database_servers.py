"""Database servers on loopback, for as long as they are needed: Debian's PostgreSQL and MariaDB, started as an ordinary user."""

import contextlib
import importlib.util
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self


def _user() -> pwd.struct_passwd | None:
    """Find a user who may run servers: they refuse root."""
    try:
        return pwd.getpwnam("nobody") if os.getuid() == 0 else pwd.getpwuid(os.getuid())
    except KeyError:
        return None


USER = _user()


class DatabaseServer:
    """A server in a folder of its own."""

    driver = ""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.port = folder, port
        self.as_user = {"user": USER.pw_uid, "group": USER.pw_gid} if USER is not None and os.getuid() == 0 else {}

    @classmethod
    def missing(cls) -> str | None:
        """Say why none can be started here; None where one can."""
        if cls.programs() is None or USER is None:
            return f"no server of {cls.__name__} can be started here"
        return None if importlib.util.find_spec(cls.driver) else f"{cls.driver} is not installed here"

    @classmethod
    @contextlib.contextmanager
    def started(cls) -> Iterator[Self]:
        """Run a new one on a free port of loopback; its data are removed afterwards."""
        folder = Path(tempfile.mkdtemp(prefix="sql"))
        own(folder)
        server = cls(folder, 0)
        try:
            server.prepare()
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                server.port = free.getsockname()[1]
            server.start()
            yield server
        finally:
            server.stop()
            shutil.rmtree(folder)

    @staticmethod
    def programs() -> Path | None:
        """Find its programs; None where it is not installed."""
        raise NotImplementedError

    def prepare(self) -> None:
        """Make a database."""
        raise NotImplementedError

    def start(self) -> None:
        """Start it over the database that was made."""
        raise NotImplementedError

    def stop(self) -> None:
        """End it at once."""
        raise NotImplementedError

    def run(self, *command: object, **options: Any) -> None:
        """Run one of its programs."""
        settings = {"cwd": self.folder, "check": True, "stdout": subprocess.DEVNULL, **self.as_user, **options}
        subprocess.run([str(word) for word in command], **settings)


def own(folder: Path) -> None:
    """Give a folder to the user that runs servers."""
    if USER is not None:
        os.chown(folder, USER.pw_uid, USER.pw_gid)


class Postgres(DatabaseServer):
    """PostgreSQL, without waiting for the disk: it is never the one that is killed."""

    driver = "psycopg"

    @staticmethod
    def programs() -> Path | None:
        """Find its programs, which Debian keeps off the path."""
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: float(folder.parent.name))
        if not found and (there := shutil.which("pg_ctl")):
            found = [Path(there).resolve().parent]
        return found[-1] if found else None

    @property
    def url(self) -> str:
        """Return what `--storage` takes."""
        return f"postgresql://warm:secret@127.0.0.1:{self.port}/postgres"

    def prepare(self) -> None:
        """Make a database."""
        self._ctl("initdb", "-A", "trust", "-U", "warm", "--no-sync")

    def start(self) -> None:
        """Start it over the database that was made."""
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off -c max_connections=300"
        self._ctl("pg_ctl", "-w", "-l", self.folder / "log", "-o", options, "start")

    def stop(self) -> None:
        """End it at once."""
        self._ctl("pg_ctl", "-m", "immediate", "stop", check=False, stderr=subprocess.DEVNULL)

    def _ctl(self, program: str, *words: object, **options: Any) -> None:
        programs = self.programs()
        assert programs is not None
        self.run(programs / program, "-D", self.folder / "data", *words, **options)


class MariaDB(DatabaseServer):
    """MariaDB."""

    driver = "pymysql"
    process: subprocess.Popen[bytes] | None = None

    @staticmethod
    def programs() -> Path | None:
        """Find its server."""
        found = shutil.which("mariadbd", path=f"{os.environ['PATH']}:/usr/sbin")
        return None if found is None else Path(found)

    @property
    def url(self) -> str:
        """Return what `--storage` takes."""
        return f"mysql+pymysql://warm:secret@127.0.0.1:{self.port}/warm"

    @property
    def _data(self) -> tuple[str, str]:
        return "--no-defaults", f"--datadir={self.folder / 'data'}"

    def prepare(self) -> None:
        """Make a database."""
        self.run("mariadb-install-db", *self._data, "--auth-root-authentication-method=normal", "--skip-test-db")

    def start(self) -> None:
        """Start it over the database that was made."""
        script, program = self.folder / "init.sql", self.programs()
        assert program is not None
        script.write_text(
            "create database if not exists warm;\n"
            "create user if not exists warm@'127.0.0.1' identified by 'secret';\n"
            "grant all on warm.* to warm@'127.0.0.1';\n"
        )
        words = (
            *(str(program), *self._data, f"--port={self.port}", "--bind-address=127.0.0.1", "--skip-name-resolve"),
            *(f"--socket={self.folder / 'socket'}", f"--init-file={script}"),
        )
        with (self.folder / "log").open("w") as log:
            self.process = subprocess.Popen(words, stdout=log, stderr=log, cwd=self.folder, **self.as_user)
        while f"port: {self.port}" not in (said := (self.folder / "log").read_text()):
            assert self.process.poll() is None, said
            time.sleep(0.05)

    def stop(self) -> None:
        """End it at once."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
