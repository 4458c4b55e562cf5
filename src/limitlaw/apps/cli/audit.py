"""The command `limitlaw audit`: a PyTorch module → a table, findings in words, and a page."""

import dataclasses
import importlib
import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from limitlaw.apps.cli.options import FORCE, argument, command, flag, option

MODEL = "FILE.py:FUNCTION"


@dataclasses.dataclass(frozen=True)
class AuditOptions:
    """The options of `limitlaw audit`."""

    model: str | None = argument(
        None, "[FILE.py:FUNCTION]", "A function that makes a torch.nn.Module."
    )
    hf: Path | None = option(None, "CONFIG.json", "A configuration of transformers, instead.")
    tokens: int = option(16, "S", "Tokens of the input.")
    seeds: int = option(32, "N", "Re-initialisations that are measured.")
    samples: int = option(256, "N", "Draws that are predicted.")
    input_dim: int | None = option(
        None, "N", "Width of the input; a vocabulary or the first Linear tells it."
    )
    limit: bool = flag("Also as n → ∞, which takes longer.")
    recipe: str | None = option(
        None, "NAME", "What was meant: gpt2, llama, torchtitan, …, CONFIG.json, or FILE.py:NAME."
    )
    level: str = option("warning", "LEVEL", "End with code 1 at a fault, or at a warning, too.")
    quick: bool = flag("Only read the module: no seeds, no law; it need not convert.")
    json: bool = flag("Findings and table as JSON.")
    html: Path | None = option(None, "FILE", "Write a page with findings and picture.")
    width: list[int] | None = option(
        None, "N", "Call FUNCTION(N); twice or more, for growth with the width."
    )
    force: bool = flag(FORCE)


@command("audit", "ask for fewer --seeds, --samples or --tokens")
def audit(asked: AuditOptions) -> None:
    """What every layer of a PyTorch module does at initialisation,
    beside what it should do, and what is wrong.

    Runs FILE.py and calls FUNCTION, once for each seed: the code in it runs as you, so audit files
    that you trust. A model with a vocabulary is given S different tokens, others one sequence of S
    normal vectors. Nothing is downloaded. Ends with code 1 where something was found.

    \b
    Examples:
      limitlaw audit mymodule.py:make_model --tokens 16 --seeds 32 --html out.html
      limitlaw audit mymodule.py:make_encoder --input-dim 64
      limitlaw audit mymodule.py:make_width --width 64 --width 128 --width 256
      limitlaw audit --hf gpt2-config.json --recipe gpt2-config.json
      limitlaw audit mymodule.py:make_model --quick --recipe gpt2 --json
    """
    _check(asked)
    lt = _limitlaw_torch()
    factory, inputs, kwargs = _configured(asked) if asked.model is None else _named(asked)
    recipe = _recipe(asked)
    if asked.quick:
        table = lt.quick_audit(factory, *inputs, recipe=recipe, **kwargs)
    else:
        settings = {"seeds": asked.seeds, "samples": asked.samples, "limit": asked.limit}
        meant = {"recipe": recipe, "widths": asked.width or None}
        table = lt.audit(factory, *inputs, **settings, **meant, **kwargs)
    typer.echo(table.to_json() if asked.json else str(table))
    if not table.findings and not asked.json:
        typer.echo("nothing was found that is not as it should be")
    if asked.html is not None:
        table.to_html(asked.html, f"limitlaw audit {asked.model or asked.hf}")
        typer.echo(f"wrote {asked.html}", err=True)
    if any(finding.level in ("fault", asked.level) for finding in table.findings):
        raise typer.Exit(1)


def _recipe(asked: AuditOptions) -> object:
    """A name, a configuration, or what a file of the user's calls by a name."""
    file, _, name = (asked.recipe or "").rpartition(":")
    return _function(Path(file), name) if file.endswith(".py") else asked.recipe


def _check(asked: AuditOptions) -> None:
    """Refuse impossible options before anything heavy is loaded."""
    for name in ("tokens", "seeds", "samples", "input_dim"):
        number = vars(asked)[name]
        if number is not None and number < 1:
            option = name.replace("_", "-")
            raise ValueError(f"--{option} must be a positive integer, got {number}")
    if (asked.model is None) == (asked.hf is None):
        raise ValueError(f"give one of {MODEL} and --hf CONFIG.json")
    if asked.level not in ("fault", "warning"):
        raise ValueError(f"--level must be fault or warning, got {asked.level}")
    if asked.quick and (asked.html is not None or asked.width):
        raise ValueError("--quick has neither a page nor a growth: leave --html and --width out")
    widths = asked.width or ()
    if widths and (asked.model is None or min(widths) < 1 or len(set(widths)) < 2):
        raise ValueError(
            f"--width must be given twice or more, positive integers, with a {MODEL} that takes a "
            "width"
        )
    folder = asked.html and asked.html.resolve().parent
    if folder and not folder.is_dir():
        raise ValueError(f"--html {asked.html}: there is no folder {folder}")


def _limitlaw_torch() -> Any:
    """limitlaw.torch, with PyTorch on one thread, since the modules here are small."""
    try:
        import limitlaw.torch as lt
    except ModuleNotFoundError as error:
        raise ValueError(str(error)) from None
    import torch

    torch.set_num_threads(1)
    return lt


# --- a function of the user's --------------------------------------------------------------------


def _named(asked: AuditOptions) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """A function from a file, and its inputs; with several widths, functions of the width."""
    assert asked.model is not None
    file, _, name = asked.model.rpartition(":")
    if not file or not name:
        raise ValueError(f"the module must be given as {MODEL}, got {asked.model}")
    factory = _function(Path(file), name)

    def given(*width: int) -> Any:
        return _input(_told(f"{asked.model} failed", lambda: factory(*width)), asked)

    return factory, (given if asked.width else given(),), {}


def _function(file: Path, name: str) -> Callable[..., Any]:
    """The function of this name, after running the file, which may import what is beside it."""
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
    functions = {n: x for n, x in vars(module).items() if callable(x) and not n.startswith("_")}
    if name not in functions and name in vars(module):
        return vars(module)[name]
    if name not in functions:
        known = ", ".join(functions) or "none"
        raise ValueError(f"{file} has no function {name}; there are {known}")
    return functions[name]


def _told(what: str, function: Callable[[], Any]) -> Any:
    """The result of a user's function; an error in it becomes one line."""
    try:
        return function()
    except Exception as error:
        raise ValueError(f"{what}: {type(error).__name__}: {error}") from error


def _input(module: object, asked: AuditOptions) -> Any:
    """A sequence as a module's input: token numbers if it has a vocabulary, else normals."""
    import torch

    generator = torch.Generator().manual_seed(0)
    parts = list(module.modules()) if isinstance(module, torch.nn.Module) else []
    tables = [m.num_embeddings for m in parts if isinstance(m, torch.nn.Embedding)]
    if tables and asked.input_dim is None:
        return _token_numbers(tables[0], asked.tokens)
    widths = [m.in_features for m in parts if isinstance(m, torch.nn.Linear)]
    if asked.input_dim is None and not widths:
        raise ValueError(
            "the module has no vocabulary and no Linear: give the width of its input as "
            "--input-dim N"
        )
    return torch.randn(1, asked.tokens, asked.input_dim or widths[0], generator=generator)


def _token_numbers(vocabulary: int, tokens: int) -> Any:
    """Token numbers of one sequence, different as long as there are any."""
    import torch

    generator = torch.Generator().manual_seed(0)
    times = -(-tokens // vocabulary)
    rounds = [torch.randperm(vocabulary, generator=generator) for _ in range(times)]
    return torch.cat(rounds)[None, :tokens]


# --- a configuration of transformers -------------------------------------------------------------


def _configured(asked: AuditOptions) -> tuple[Callable[[], Any], tuple[Any, ...], dict[str, Any]]:
    """A function that makes the model of a configuration, with random weights, and its inputs."""
    assert asked.hf is not None
    path = f"--hf {asked.hf}"
    try:
        transformers: Any = importlib.import_module("transformers")
    except ModuleNotFoundError:
        raise ValueError("--hf needs transformers: pip install transformers") from None
    settings = _settings(asked.hf)
    kind = settings.pop("model_type", None)
    if not isinstance(kind, str):
        raise ValueError(
            f"{path}: it has no model_type, so that it is no configuration of transformers"
        )
    config = _told(path, lambda: transformers.AutoConfig.for_model(kind, **settings))
    config.use_cache = False
    return lambda: transformers.AutoModel.from_config(config), (), _inputs_of(config, asked)


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


def _inputs_of(config: Any, asked: AuditOptions) -> dict[str, Any]:
    """A model's inputs: tokens if it has a vocabulary, an image if it reads images."""
    import torch

    known = config.to_dict()
    if known.get("vocab_size"):
        tokens = _token_numbers(known["vocab_size"], asked.tokens)
        names = ["input_ids"] + ["decoder_input_ids"] * bool(known.get("is_encoder_decoder"))
        return dict.fromkeys(names, tokens)
    if known.get("image_size"):
        size, channels = known["image_size"], known.get("num_channels", 3)
        generator = torch.Generator().manual_seed(0)
        return {"pixel_values": torch.randn(1, channels, size, size, generator=generator)}
    raise ValueError(
        f"--hf {asked.hf}: neither vocab_size nor image_size says what the model reads; write a "
        f"{MODEL}"
    )
