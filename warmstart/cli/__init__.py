"""The command line. Start-up imports Typer alone; every command imports in its body."""

from warmstart.cli.main import main

__all__ = ["main"]
