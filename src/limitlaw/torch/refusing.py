"""Operations that are refused by name, with what could be done."""

from typing import Any

from limitlaw.torch.errors import ConversionError
from limitlaw.torch.labels import Label

REFUSED = {
    "batch_norm": (
        "batch norm mixes the samples of a batch: use LayerNorm, or fold the norm in its weights"
    ),
    "_native_batch_norm_legit_no_training": (
        "batch norm mixes the samples of a batch: use LayerNorm"
    ),
    "_native_batch_norm_legit": "batch norm mixes the samples of a batch: use LayerNorm",
    "topk": (
        "top-k routing (mixtures of experts) chooses by random values: convert one expert by "
        "itself"
    ),
    "sort": "sorting random values has no rule",
    "nonzero": "data-dependent control flow has no rule: shapes depend on random values",
    "scatter": "scatter writes have no rule: write the result with torch.where or torch.cat",
    "scatter_add": "scatter writes have no rule: write the result with torch.where or torch.cat",
    "index_add": "scatter writes have no rule: write the result with torch.where or torch.cat",
    "index_put": "scatter writes have no rule: write the result with torch.where or torch.cat",
    "select_scatter": (
        "scatter writes have no rule: write the result with torch.where or torch.cat"
    ),
    "slice_scatter": "scatter writes have no rule: write the result with torch.where or torch.cat",
    "bernoulli": "dropout in train mode draws at random: call it with training=False",
    "native_dropout": "dropout in train mode draws at random: call it with training=False",
    "multinomial": "drawing from random values has no rule",
    "lstm": "recurrent layers have no rule here: write them with limitlaw.lstm or limitlaw.gru",
    "gru": "recurrent layers have no rule here: write them with limitlaw.lstm or limitlaw.gru",
}


def refused(name: str, label: Label, args: Any) -> None:
    """Raise for what limitlaw refuses by name, when random values enter it."""
    if name == "dropout" and args[1] > 0 and args[2]:
        raise ConversionError(f"{label}: {REFUSED['bernoulli']}")
    if name.rstrip("_") in REFUSED:
        raise ConversionError(f"{label}: {REFUSED[name.rstrip('_')]}")
