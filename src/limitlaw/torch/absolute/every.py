"""All absolute rules."""

from collections.abc import Iterator

from limitlaw.torch.absolute.attention import attention_faults, sharpness
from limitlaw.torch.absolute.depth import depth_faults, growth, scaled_with_depth
from limitlaw.torch.absolute.ends import end_faults
from limitlaw.torch.absolute.weights import size_faults, weight_faults
from limitlaw.torch.finding import AuditFinding
from limitlaw.torch.reading.anatomy import ModuleReading


def absolute_faults(
    reading: ModuleReading, scales: bool = True, measured: bool = True
) -> Iterator[AuditFinding]:
    """The findings of all absolute rules; of scales where no recipe says them, and of one run of
    the module where nothing else measures.
    """
    yield from weight_faults(reading)
    yield from attention_faults(reading)
    yield from depth_faults(reading)
    yield from end_faults(reading)
    if scales:
        yield from size_faults(reading)
        yield from scaled_with_depth(reading)
    if measured:
        yield from sharpness(reading)
        yield from growth(reading)
