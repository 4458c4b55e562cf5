"""`limitlaw explore`: the page to play with, on this machine."""

from typing import TYPE_CHECKING, Annotated

import typer

from limitlaw.apps.cli.errors import check_extra, one_line_errors

if TYPE_CHECKING:
    from limitlaw.apps.explore import Explorer


def explore(
    port: Annotated[
        int, typer.Option(metavar="N", help="Port on 127.0.0.1; a free one without it.", min=0)
    ] = 0,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")
    ] = True,
) -> None:
    """A page to play with: move tokens, heads, width, score scale and see the exact law change.

    Serves this machine alone, on 127.0.0.1, until Ctrl-C;
    no request leaves it. Needs pip install 'limitlaw[explore]'.

    \b
    Examples:
      limitlaw explore
      limitlaw explore --port 8765 --no-browser
    """
    with one_line_errors():
        explorer = _made(port)
    typer.echo(f"limitlaw explore: {explorer.address} (Ctrl-C ends it)")
    explorer.warm_up()
    if browser:
        explorer.open()
    explorer.serve()
    explorer.leave()


def _made(port: int) -> "Explorer":
    for package, name in (("flask", "Flask"), ("plotly", "plotly")):
        check_extra("explore", package, name, "explore")
    if port > 65535:
        raise ValueError(f"--port must be from 1 to 65535, got {port}")
    from limitlaw.apps.explore import Explorer

    try:
        return Explorer(port)
    except OSError as error:
        raise ValueError(
            f"--port {port}: is not to be had ({error.strerror}); leave it out for a free one"
        ) from None
