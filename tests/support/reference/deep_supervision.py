#!/usr/bin/env python3
"""PyTorch's losses at three resolutions, for tests/unit/model/deep_supervision_test.cpp.

    deep_supervision.py
        Prints for each loss its value, and for each resolution two projections of the gradient with respect to the
        logits: the sums over i of g[i]·cos(i) and of g[i]·cos(i²).
"""
import math

import torch
from torch.nn import functional

PICTURES, CLASSES, SIDE, WEIGHTS = 3, 2, 8, (4 / 7, 2 / 7, 1 / 7)


def numbers(resolution, channels):
    side = SIDE >> resolution
    count = PICTURES * channels * side * side
    values = [2 * math.sin(0.7 * (i + 1) + resolution) for i in range(count)]
    return torch.tensor(values, dtype=torch.float64).view(PICTURES, channels, side, side).requires_grad_()


def masks():
    """Of each class, 0 being background, which has none."""
    called = torch.tensor([[[(3 * y + 5 * x + 7 * n + x * y) % (CLASSES + 1) for x in range(SIDE)] for y in range(SIDE)] for n in range(PICTURES)])
    return functional.one_hot(called, CLASSES + 1).permute(0, 3, 1, 2)[:, 1:].double()


def dice(probabilities, target):
    overlap, area = (probabilities * target).sum((0, 2, 3)), (probabilities + target).sum((0, 2, 3))
    return 1 - ((2 * overlap + 1e-5) / (area + 1e-5)).mean()


def entropy_of_classes(logits, target):
    return functional.cross_entropy(logits, (target * torch.tensor([1.0, 2.0]).view(1, 2, 1, 1)).sum(1).long())


def overlap_of_classes(logits, target):
    return dice(logits.softmax(1)[:, 1:], target)


LOSSES = {
    "bce": (CLASSES, functional.binary_cross_entropy_with_logits),
    "cross_entropy": (CLASSES + 1, entropy_of_classes),
    "dice": (CLASSES + 1, overlap_of_classes),
    "bce_dice": (CLASSES, lambda logits, target: functional.binary_cross_entropy_with_logits(logits, target) + dice(logits.sigmoid(), target)),
    "ce_dice": (CLASSES + 1, lambda logits, target: entropy_of_classes(logits, target) + overlap_of_classes(logits, target)),
}

for name, (channels, loss_of) in LOSSES.items():
    logits = [numbers(resolution, channels) for resolution in range(len(WEIGHTS))]
    whole = masks()
    loss = sum(weight * loss_of(one, functional.interpolate(whole, one.shape[2:], mode="nearest-exact")) for weight, one in zip(WEIGHTS, logits))
    loss.backward()
    told = [loss.item()]
    for one in logits:
        gradient = one.grad.flatten()
        place = torch.arange(gradient.numel(), dtype=torch.float64)
        told += [(gradient * place.cos()).sum().item(), (gradient * place.square().cos()).sum().item()]
    print(name, *(repr(number) for number in told))
