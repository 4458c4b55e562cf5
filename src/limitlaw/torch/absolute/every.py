"""All absolute rules."""

from collections.abc import Iterator

from limitlaw.torch.absolute.attention import attention_faults
from limitlaw.torch.absolute.depth import depth_faults
from limitlaw.torch.absolute.ends import end_faults
from limitlaw.torch.absolute.weights import weight_faults
from limitlaw.torch.finding import Finding
from limitlaw.torch.reading.anatomy import Reading


def absolute_faults(reading: Reading) -> Iterator[Finding]:
    """The findings of all absolute rules."""
    yield from weight_faults(reading)
    yield from attention_faults(reading)
    yield from depth_faults(reading)
    yield from end_faults(reading)
