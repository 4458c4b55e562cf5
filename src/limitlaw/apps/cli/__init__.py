"""The command `limitlaw`, which imports what is heavy where it needs it."""

import importlib.metadata
import io
import sys
from typing import Annotated

import typer

from limitlaw.apps.cli import audit, depth, explore, layer, learn, reproduce
from limitlaw.apps.cli.errors import end_promptly

app = typer.Typer(
    help="Exact laws of neural networks at initialisation, at width n and as n → ∞.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for each in (
    explore.explore,
    layer.law,
    reproduce.reproduce,
    depth.depth,
    depth.phase,
    reproduce.studies,
    audit.audit,
    learn.learn,
):
    app.command()(each)


def main() -> None:
    """The entry point of the command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # terminals that cannot show ± or ∞
    end_promptly()
    app(prog_name="limitlaw")


def _print_version(wanted: bool) -> bool:
    if wanted:
        typer.echo(f"limitlaw {importlib.metadata.version('limitlaw')}")
        raise typer.Exit
    return wanted


@app.callback()
def _group(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Exact laws of neural networks at initialisation, at width n and as n → ∞."""
