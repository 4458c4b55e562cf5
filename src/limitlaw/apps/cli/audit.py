"""The command `limitlaw audit`: a PyTorch module by file or configuration → table,
findings, page.
"""

import importlib
import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import typer

MODEL = "FILE.py:FUNCTION"


class Request(NamedTuple):
    """What was asked for on the command line."""

    target: str | None
    hf: Path | None
    tokens: int
    seeds: int
    samples: int
    input_dim: int | None
    limit: bool
    html: Path | None
    width: tuple[int, ...] = ()


def audit(request: Request) -> None:
    """Make the module, audit it, print the table, and write the page."""
    for name in ("tokens", "seeds", "samples", "input_dim"):
        number = getattr(request, name)
        if number is not None and number < 1:
            raise ValueError(
                f"--{name.replace('_', '-')} must be a positive integer, got {number}"
            )
    if (request.target is None) == (request.hf is None):
        raise ValueError(f"give one of {MODEL} and --hf CONFIG.json")
    if request.width and (
        request.target is None or min(request.width) < 1 or len(set(request.width)) < 2
    ):
        raise ValueError(
            f"--width must be given twice or more, positive integers, with a {MODEL} that takes a "
            "width"
        )
    if request.html is not None and not request.html.resolve().parent.is_dir():
        raise ValueError(
            f"--html {request.html}: there is no folder {request.html.resolve().parent}"
        )
    lt = _limitlaw_torch()
    factory, inputs, kwargs = (
        _named(request) if request.hf is None else _configured(request, request.hf)
    )
    settings = {"seeds": request.seeds, "samples": request.samples, "limit": request.limit}
    table = lt.audit(factory, *inputs, widths=request.width or None, **settings, **kwargs)
    typer.echo(str(table))
    if not table.findings:
        typer.echo("nothing was found that is not as it should be")
    if request.html is not None:
        table.to_html(request.html, f"limitlaw audit {request.target or request.hf}")
        typer.echo(f"wrote {request.html}", err=True)


def _limitlaw_torch() -> Any:
    """limitlaw.torch, in double precision; PyTorch on one thread,
    as its modules here are small.
    """
    try:
        import limitlaw.torch as lt
    except ModuleNotFoundError as error:
        raise ValueError(str(error)) from None
    import torch

    torch.set_num_threads(1)
    return lt


# --- a function of the user's --------------------------------------------------------------------


def _named(request: Request) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """A function of a file, and inputs for what it makes;
    with several widths, both are functions of the width.
    """
    assert request.target is not None
    file, _, name = request.target.rpartition(":")
    if not file or not name:
        raise ValueError(f"the module must be given as {MODEL}, got {request.target}")
    factory = _function(Path(file), name)

    def given(*width: int) -> Any:
        return _input(_told(f"{request.target} failed", lambda: factory(*width)), request)

    return factory, (given if request.width else given(),), {}


def _function(file: Path, name: str) -> Callable[..., Any]:
    """The function, after running the file; folders beside the file can be imported,
    as by `python file.py`.
    """
    if not file.is_file():
        raise ValueError(f"there is no file {file}")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise ValueError(f"{file} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(file.resolve().parent))
    try:
        _told(f"{file} failed", lambda: spec.loader.exec_module(module))  # type: ignore[union-attr]
    finally:
        sys.path.pop(0)
    found = getattr(module, name, None)
    if not callable(found):
        known = (
            ", ".join(n for n, x in vars(module).items() if callable(x) and not n.startswith("_"))
            or "none"
        )
        raise ValueError(f"{file} has no function {name}; there are {known}")
    return found


def _told(what: str, function: Callable[[], Any]) -> Any:
    """What a function of the user's gives; its error in one line."""
    try:
        return function()
    except Exception as error:
        raise ValueError(f"{what}: {type(error).__name__}: {error}") from error


def _input(module: object, request: Request) -> Any:
    """Token numbers for a module with a vocabulary, else normal numbers: one sequence."""
    import torch

    generator = torch.Generator().manual_seed(0)
    parts = list(module.modules()) if isinstance(module, torch.nn.Module) else []
    tables = [m.num_embeddings for m in parts if isinstance(m, torch.nn.Embedding)]
    if tables and request.input_dim is None:
        return _token_numbers(tables[0], request.tokens)
    widths = [m.in_features for m in parts if isinstance(m, torch.nn.Linear)]
    if request.input_dim is None and not widths:
        raise ValueError(
            "the module has no vocabulary and no Linear: give the width of its input as "
            "--input-dim N"
        )
    return torch.randn(1, request.tokens, request.input_dim or widths[0], generator=generator)


def _token_numbers(vocabulary: int, tokens: int) -> Any:
    """Different tokens as long as there are any."""
    import torch

    generator = torch.Generator().manual_seed(0)
    times = -(-tokens // vocabulary)
    return torch.cat([torch.randperm(vocabulary, generator=generator) for _ in range(times)])[
        None, :tokens
    ]


# --- a configuration of transformers -------------------------------------------------------------


def _configured(
    request: Request, path: Path
) -> tuple[Callable[[], Any], tuple[Any, ...], dict[str, Any]]:
    """What makes the model of a configuration, with random weights, and its inputs;
    nothing is downloaded.
    """
    try:
        transformers: Any = importlib.import_module("transformers")
    except ModuleNotFoundError:
        raise ValueError("--hf needs transformers: pip install transformers") from None
    settings = _settings(path)
    kind = settings.pop("model_type", None)
    if not isinstance(kind, str):
        raise ValueError(
            f"--hf {path}: it has no model_type, so that it is no configuration of transformers"
        )
    config = _told(f"--hf {path}", lambda: transformers.AutoConfig.for_model(kind, **settings))
    if hasattr(config, "use_cache"):
        config.use_cache = False
    return (
        (lambda: transformers.AutoModel.from_config(config)),
        (),
        _inputs_of(config, request, path),
    )


def _settings(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise ValueError(f"--hf: there is no file {path}")
    try:
        settings = json.loads(path.read_text())
    except ValueError as error:
        raise ValueError(f"--hf {path}: it is no JSON file ({error})") from None
    if not isinstance(settings, dict):
        raise ValueError(f"--hf {path}: it is no JSON object")
    return settings


def _inputs_of(config: Any, request: Request, path: Path) -> dict[str, Any]:
    import torch

    if getattr(config, "vocab_size", None):
        tokens = _token_numbers(config.vocab_size, request.tokens)
        return {
            "input_ids": tokens,
            **({"decoder_input_ids": tokens} if config.is_encoder_decoder else {}),
        }
    if getattr(config, "image_size", None):
        size, channels = config.image_size, getattr(config, "num_channels", 3)
        return {
            "pixel_values": torch.randn(
                1, channels, size, size, generator=torch.Generator().manual_seed(0)
            )
        }
    raise ValueError(
        f"--hf {path}: neither vocab_size nor image_size says what the model reads; write a "
        f"{MODEL}"
    )
