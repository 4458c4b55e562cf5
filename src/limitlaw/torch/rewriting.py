"""Nodes replaced by others that compute the same, where a special form is read otherwise."""

from collections.abc import Iterable

from limitlaw.torch.nodes import Node, Tensor, pulled


class Rewrite(Exception):
    """A node that must be replaced by a tensor of the same entries before a program is written."""

    def __init__(self, node: Node, tensor: Tensor):
        self.node, self.tensor = node, tensor

    def apply(self, tensors: Iterable[Tensor]) -> None:
        """Let all of these tensors that read the node read the replacement, in place."""
        for t in {id(t): t for t in tensors if t.node is self.node}.values():
            found = pulled(t, self.tensor)
            t.node, t.ids = found.node, found.ids
