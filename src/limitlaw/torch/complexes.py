"""Complex tensors of a module, as pairs of real ones: rotary embeddings by complex products."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import torch

from limitlaw.torch import making as make
from limitlaw.torch.making import Entries
from limitlaw.torch.nodes import Tensor


@dataclasses.dataclass(frozen=True, eq=False)
class Complex:
    """The numbers re + i im."""

    re: Entries
    im: Entries

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the tensor in torch."""
        return tuple(self.re.shape)

    def moved(self, function: Callable[[torch.Tensor], torch.Tensor]) -> "Complex":
        """The same entries, moved as `function` moves those of a torch tensor."""
        return Complex(make.moved(self.re, function), make.moved(self.im, function))


def parts(x: object) -> Complex:
    """A complex tensor, random or constant, or a real one, as a pair."""
    if isinstance(x, Complex):
        return x
    if isinstance(x, torch.Tensor) and x.is_complex():
        return Complex(x.real, x.imag)
    real: Any = x
    return Complex(real, 0.0)  # type: ignore[arg-type]


def _sum(a: Any, b: Any, sign: float = 1.0) -> Any:
    if not isinstance(a, Tensor) and not isinstance(b, Tensor):
        return a + sign * b
    return make.combine((1.0, a), (sign, b))


def times(a: object, b: object) -> Complex:
    """The product of two complex tensors."""
    x, y = parts(a), parts(b)
    return Complex(
        _sum(make.multiply(x.re, y.re), make.multiply(x.im, y.im), -1.0),
        _sum(make.multiply(x.re, y.im), make.multiply(x.im, y.re)),
    )


def added(a: object, b: object) -> Complex:
    """The sum of two complex tensors."""
    x, y = parts(a), parts(b)
    return Complex(_sum(x.re, y.re), _sum(x.im, y.im))


def of_pairs(x: Tensor) -> Complex:
    """The numbers x_0 + i x_1, along the last axis."""
    return Complex(x.moved(lambda ids: ids[..., 0]), x.moved(lambda ids: ids[..., 1]))


def as_pairs(z: Complex) -> Tensor:
    """The real and the imaginary part along a new last axis."""
    return make.stacked((z.re, z.im), -1)


COMPLEX_RULES: Mapping[str, Callable[..., Any]] = {
    "mul": times,
    "add": added,
    "view_as_real": as_pairs,
    "real": lambda z: z.re,
    "imag": lambda z: z.im,
    "_conj": lambda z: Complex(z.re, make.multiply(z.im, -1.0)),
    **dict.fromkeys(("_to_copy", "to"), lambda z, *rest, **settings: z),
}
