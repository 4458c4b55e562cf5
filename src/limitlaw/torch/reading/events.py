"""The events of an exported graph: its products with weight matrices, tables and attentions.

Between events a module only moves, adds, scales, normalises, rotates and bends what the last
events gave. So the graph is cut there: each event gives fresh normal numbers, its *leaf*, in place
of its own result, and what lies between is run by PyTorch itself, on numbers that no zero of the
module can hide. What an event reads is a function of leaves, and is asked as such: on which rows
of which leaves does it depend (`influence`), and does it change when all leaves are 10⁴ times as
large (`degree`: 0 behind a norm, 1 along the residual stream)?
"""

import dataclasses
import math
from collections.abc import Iterable, Mapping

import torch

from limitlaw.torch.errors import label_of
from limitlaw.torch.exporting import Exported, name_of, result_of

FAR_TIMES = 1e4  # how many times as large the second numbers of leaves are
_MATRIX = {"linear", "addmm", "mm", "matmul", "bmm", "baddbmm", "einsum"}
_CONVOLUTION = {"conv1d", "conv2d", "conv3d", "convolution"}
_SOFTMAX = {"softmax", "_softmax", "_safe_softmax"}
_JOINS = {"add", "sub", "rsub", "cat", "stack", "where", "addcmul"}
Leaves = frozenset["Event"]


@dataclasses.dataclass(eq=False)
class Event:
    """One event: its node of the graph, the module it is in, and the nodes that it reads.

    `kind` is matrix, table, vector (a parameter that is added as it is), product (of two tensors
    that both follow from leaves), softmax, attention (a fused one), or input. `weight` is the
    matrix as (outputs, inputs), or the table.
    """

    kind: str
    node: torch.fx.Node
    module: str
    reads: tuple[torch.fx.Node, ...] = ()
    parameter: str = ""
    bias: str = ""
    weight: torch.Tensor | None = None

    @property
    def name(self) -> str:
        """The path of the module that holds the parameter, or that computes."""
        if self.kind == "table" and self.module:
            return self.module  # a tied table may go by the name of the head
        path, _, last = self.parameter.rpartition(".")
        return (path if last == "weight" else self.parameter) or self.module

    @property
    def weight_shape(self) -> tuple[int, ...]:
        """The shape of the matrix; () without one."""
        return () if self.weight is None else tuple(self.weight.shape)


class Walk:
    """A graph that was followed event by event.

    `leaves` of a node are the events that it follows from without another event between; `numbers`
    and `far` are its values for the leaves, and for leaves that are 10⁴ times as large.
    """

    def __init__(self, exported: Exported):
        self.exported = exported
        self.events: list[Event] = []
        self.leaves: dict[torch.fx.Node, Leaves] = {}
        self.held: dict[torch.fx.Node, frozenset[str]] = {}  # parameters, before any event
        self.numbers: dict[torch.fx.Node, object] = {}
        self.far: dict[torch.fx.Node, object] = {}
        self.of: dict[torch.fx.Node, Event] = {}
        self.outputs: tuple[torch.fx.Node, ...] = ()
        self._random = torch.Generator().manual_seed(0)
        with torch.enable_grad():
            for node in exported.graph.nodes:
                self._follow(node)

    # --- what is asked ---------------------------------------------------------------------------

    def read_by(self, event: Event) -> Leaves:
        """The leaves from which an event's operands follow."""
        return frozenset[Event]().union(*(self.leaves[node] for node in event.reads))

    def influence(self, node: torch.fx.Node, event: Event) -> torch.Tensor:
        """The gradient of a random sum of a node's entries in a leaf."""
        value, leaf = self.numbers[node], self.numbers[event.node]
        assert isinstance(value, torch.Tensor)
        assert isinstance(leaf, torch.Tensor)
        if not value.requires_grad:
            return torch.zeros_like(leaf)
        with torch.enable_grad():
            weights = torch.randn(value.shape, dtype=torch.float64, generator=self._random)
            (found,) = torch.autograd.grad(
                value, leaf, weights, retain_graph=True, allow_unused=True
            )
        return torch.zeros_like(leaf) if found is None else found

    def again(self, node: torch.fx.Node, values: Mapping[Event, torch.Tensor]) -> torch.Tensor:
        """A node's numbers if these were the leaves of events, others as they are."""
        known: dict[torch.fx.Node, object] = {e.node: _laid(x, e.node) for e, x in values.items()}

        def of(x: torch.fx.Node) -> object:
            if x not in known:
                known[x] = self.numbers[x]
                if not self.leaves[x].isdisjoint(values) and x not in self.of:
                    known[x] = result_of(x, {y: of(y) for y in x.all_input_nodes})
            return known[x]

        with torch.no_grad():
            return torch.as_tensor(of(node)).detach()

    def degree(self, node: torch.fx.Node) -> float | None:
        """The d for which a node grows as the d-th power of all leaves; None for other growth."""
        if not self.leaves[node]:
            return None
        near, far = (
            float(x.detach().square().mean()) if isinstance(x, torch.Tensor) else 0.0
            for x in (self.numbers.get(node), self.far.get(node))
        )
        if not (0 < near < math.inf and 0 < far < math.inf):
            return None
        found = math.log(far / near) / (2 * math.log(FAR_TIMES))
        return float(round(found)) if abs(found - round(found)) < 0.1 else None

    # --- following -------------------------------------------------------------------------------

    def _follow(self, node: torch.fx.Node) -> None:
        if node.op == "placeholder":
            return self._placeholder(node)
        inputs = node.all_input_nodes
        if node.op == "output":
            self.outputs = tuple(inputs)
            return None
        self.leaves[node] = frozenset[Event]().union(*(self.leaves[x] for x in inputs))
        self.held[node] = frozenset[str]().union(*(self.held[x] for x in inputs))
        if node.op != "call_function":
            return None
        event = self._event(node)
        if event is not None:
            return self._cut(event)
        if self.leaves[node]:
            if name_of(node.target) in _JOINS:
                for x in inputs:
                    if not self.leaves[x] and self.held[x]:
                        self.leaves[node] |= {self._vector(x)}
            self.held[node] = frozenset()
            self.far[node] = result_of(node, {x: self.far.get(x, self.numbers[x]) for x in inputs})
        self.numbers[node] = result_of(node, self.numbers)
        return None

    def _placeholder(self, node: torch.fx.Node) -> None:
        own = self.exported.parameters.get(node.name)
        value = self.exported.constants[node.name] if own is None else self.exported.arrays[own]
        self.leaves[node] = frozenset()
        self.held[node] = frozenset() if own is None else frozenset({own})
        self.numbers[node] = value
        if (
            node.name in self.exported.inputs
            and isinstance(value, torch.Tensor)
            and value.is_floating_point()
            and len(value.unique()) > 2  # else it is a mask
        ):
            self._cut(Event("input", node, node.name))

    def _vector(self, node: torch.fx.Node) -> Event:
        """The event of parameters that are added as they are."""
        if node not in self.of:
            name = min(self.held[node])
            event = Event("vector", node, name.rpartition(".")[0], (), name)
            event.weight = torch.as_tensor(self.numbers[node]).detach()
            self.of[node] = event
            self.events.append(event)
        return self.of[node]

    def _event(self, node: torch.fx.Node) -> Event | None:
        """The event that an operation is; None for one that is none."""
        name, label = name_of(node.target), label_of(node)
        given = [x for x in node.args if isinstance(x, torch.fx.Node)]
        if name == "einsum":
            given = list(node.all_input_nodes)
        if name == "embedding" and self.held[given[0]]:
            own = min(self.held[given[0]])
            return Event("table", node, label.module, (given[1],), own, "", self._weight(given[0]))
        if name == "scaled_dot_product_attention":
            return Event("attention", node, label.module, tuple(given[:3]))
        if name in _SOFTMAX and self.leaves[node]:
            return Event("softmax", node, label.module, (given[0],))
        if name in _CONVOLUTION and self.held[given[1]] and not self.leaves[given[1]]:
            weight = self._weight(given[1]).flatten(1)
            bias = min(self.held[given[2]], default="") if len(given) > 2 else ""
            own = min(self.held[given[1]])
            return Event("matrix", node, label.module, (given[0],), own, bias, weight)
        return self._product(node, name, given) if name in _MATRIX else None

    def _product(self, node: torch.fx.Node, name: str, given: list[torch.fx.Node]) -> Event | None:
        """A product with a weight matrix, or of two tensors that follow from leaves."""
        added = given[:1] if name in ("addmm", "baddbmm") else given[2:]
        factors = given[1:] if name in ("addmm", "baddbmm") else given[:2]
        if len(factors) != 2:
            return None
        module = label_of(node).module
        matrices = [x for x in factors if self.held[x] and not self.leaves[x]]
        if len(matrices) == 1 and self._weight(matrices[0]).ndim >= 2:
            (own,) = matrices
            (x,) = (f for f in factors if f is not own)
            weight = self._weight(own)
            flat = weight.reshape(-1, weight.shape[-1]) if weight.ndim > 2 else weight
            right = own is factors[1] and name != "linear"
            bias = min(self.held[added[0]], default="") if added else ""
            parameter = max(self.held[own], key=lambda n: self.exported.arrays[n].ndim)
            matrix = flat.T if right and weight.ndim == 2 else flat
            return Event("matrix", node, module, (x,), parameter, bias, matrix)
        if all(self.leaves[x] for x in factors):
            return Event("product", node, module, tuple(factors))
        return None

    def _weight(self, node: torch.fx.Node) -> torch.Tensor:
        return torch.as_tensor(self.numbers[node]).detach()

    def _cut(self, event: Event) -> None:
        """Give an event its leaf."""
        node = event.node
        if event.kind == "softmax":  # its weights are its own: they say what is seen
            scores = torch.as_tensor(self.numbers[event.reads[0]]).detach()
            leaf = result_of(node, {event.reads[0]: scores}).nan_to_num()
            self.far[node] = leaf
        else:
            shape = [int(n) for n in node.meta["val"].shape]
            leaf = _laid(torch.randn(shape, dtype=torch.float64, generator=self._random), node)
            far = FAR_TIMES * leaf
            added = node.args[0] if name_of(node.target) == "baddbmm" else None
            if isinstance(added, torch.fx.Node):  # a mask that is added at once
                mask = torch.as_tensor(self.numbers[added]).detach()
                leaf, far = leaf + mask, far + mask
            self.far[node] = far
        self.numbers[node] = leaf.requires_grad_()
        self.leaves[node] = frozenset({event})
        self.held[node] = frozenset()
        self.of[node] = event
        self.events.append(event)


def _laid(value: torch.Tensor, node: torch.fx.Node) -> torch.Tensor:
    """The entries in memory as the node has them: views of them depend on it."""
    strides = [int(n) for n in node.meta["val"].stride()]
    return torch.empty_strided(value.shape, strides, dtype=value.dtype).copy_(value)


def readers(walk: Walk) -> dict[Event, list[Event]]:
    """The events that read each leaf."""
    found: dict[Event, list[Event]] = {event: [] for event in walk.events}
    for event in walk.events:
        for leaf in walk.read_by(event):
            found[leaf].append(event)
    return found


def shown(walk: Walk) -> Leaves:
    """The leaves from which the module's outputs follow."""
    return frozenset[Event]().union(*(walk.leaves[node] for node in walk.outputs))


def of_kind(events: Iterable[Event], *kinds: str) -> list[Event]:
    """The events of these kinds."""
    return [event for event in events if event.kind in kinds]
