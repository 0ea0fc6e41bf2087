"""The networks of dtrain in plain PyTorch (../dtrain_models.py), losses and batches: what its C++ ones are measured against."""
import pathlib
import sys

import torch
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from dtrain_models import build  # noqa: E402, F401: for those who import this


def loss_of(name):
    return nn.CrossEntropyLoss() if name == "small_cnn" else nn.BCEWithLogitsLoss()


def made_up_batch(name, batch, channels, outputs, height, width, seed):
    """Normal pixels and random targets, as the loss of `name` takes them; a function of the arguments alone."""
    random = torch.Generator().manual_seed(seed)
    pixels = torch.randn(batch, channels, height, width, generator=random)
    if name == "small_cnn":
        return pixels, torch.randint(outputs, (batch,), generator=random)
    shape = (batch, outputs, height, width) if name == "unet" else (batch, outputs)
    return pixels, torch.randint(2, shape, generator=random).float()
