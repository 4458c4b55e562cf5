"""A command's options as fields of a dataclass, which Typer reads and the command is given."""

import dataclasses
import functools
import inspect
import typing
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import typer

from limitlaw.apps.cli.errors import one_line_errors
from limitlaw.engines.bounds import Call

FORCE = "Go on, whatever memory and time it takes."
JOBS = "Threads; as many as there are cores."
FOLDER = "Where report, figures and data go."


def option(default: object, metavar: str, help: str) -> Any:
    """The option `--name METAVAR`; required where the default is `...`."""
    return _field(default, typer.Option, metavar=metavar, help=help)


def flag(help: str, name: str = "") -> Any:
    """The option `--name`, which is False where it is not given."""
    return _field(False, typer.Option, name, help=help)


def argument(default: object, metavar: str, help: str) -> Any:
    """A positional argument of the command."""
    return _field(default, typer.Argument, metavar=metavar, help=help)


def _field(default: object, kind: Callable[..., Any], *names: str, **settings: str) -> Any:
    metadata = {"kind": kind, "names": names, "settings": settings}
    return dataclasses.field(default=default, metadata=metadata)


def command(name: str, advice: str) -> Callable[[Callable[[Any], None]], Callable[..., None]]:
    """A decorator that makes a function of one dataclass a command with an option for each field,
    those of nested dataclasses included; `name` and `advice` are for refusals (`bounds.Call`).
    """

    def decorated(run: Callable[[Any], None]) -> Callable[..., None]:
        (kind,) = (hint for key, hint in typing.get_type_hints(run).items() if key != "return")

        @functools.wraps(run)
        def told(**options: Any) -> None:
            with one_line_errors(Call(name, advice, options["force"]), tuple(options)):
                run(_built(kind, options))

        parameters = [_parameter(field, hint) for field, hint in _fields(kind)]
        told.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        told.__annotations__ = {each.name: each.annotation for each in parameters}
        return told

    return decorated


def _fields(kind: type) -> Iterator[tuple[dataclasses.Field[Any], Any]]:
    hints = typing.get_type_hints(kind)
    for field in dataclasses.fields(kind):
        hint = hints[field.name]
        if isinstance(hint, type) and dataclasses.is_dataclass(hint):
            yield from _fields(hint)
        else:
            yield field, hint


def _built(kind: type, options: dict[str, Any]) -> Any:
    hints = typing.get_type_hints(kind)
    names = [field.name for field in dataclasses.fields(kind)]
    return kind(**{n: options[n] if n in options else _built(hints[n], options) for n in names})


def _parameter(field: dataclasses.Field[Any], hint: Any) -> inspect.Parameter:
    names = [f"--{name or field.name}" for name in field.metadata["names"]]
    declared = field.metadata["kind"](*names, **field.metadata["settings"])
    default = inspect.Parameter.empty if field.default is ... else field.default
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(
        field.name, kind, default=default, annotation=Annotated[hint, declared]
    )
