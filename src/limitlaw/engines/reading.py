"""What is read off a draw: a `Reading` says which arrays are wanted of a followed program."""

import dataclasses
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from limitlaw.core.kinds import Value


class Reading:
    """A function of a draw and of the outputs that were asked for, which gives arrays in any tree
    of JAX.

    Equal readings read the same, and share what is compiled for them. What a reading needs is
    declared by fields with defaults:
    `coordinates`: how many coordinates of each output it reads at finite width.
    `at_nodes`: it averages over quadrature nodes, which cannot be seen in the program.
    `of_coordinates`: it reads the law of a coordinate of outputs, and not only their moments.
    `undrawn`: of outputs that are scores it reads the covariance, so that they are not drawn.
    `crosswise`: it reads two outputs together, and nothing of each by itself.
    `iterations`: it reads every iteration of a loop, by `of_iteration`.
    `few`: it is read off few draws, of programs that take longer to compile than to run.
    """

    coordinates: int = 1
    at_nodes: bool = False
    of_coordinates: bool = False
    undrawn: bool = False
    crosswise: bool = False
    iterations: bool = False
    few: bool = False

    def __call__(self, draw: Any, outputs: Any) -> Any:
        """The arrays that are read off a draw."""
        raise NotImplementedError

    def of_iteration(self, draw: Any, value: "Value", layer: "Iterable[Value]") -> Any:
        """What is read off an iteration of a loop that gives `value` by the values of `layer`."""
        raise NotImplementedError


@dataclasses.dataclass(frozen=True)
class ReadBy(Reading):
    """A reading by a function of the draw and the outputs."""

    function: Callable[..., Any]
    of_coordinates: bool = False

    def __call__(self, draw: Any, outputs: Any) -> Any:
        return self.function(draw, outputs)


@ReadBy
def numbers(draw: Any, outputs: Any) -> list[Any]:
    """The numbers that the outputs are."""
    return [draw[p].whole(layout) for p, layout in outputs]
