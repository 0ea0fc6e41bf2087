#!/usr/bin/env python3
"""Ten updates in float64 by optimizers of PyTorch, and by those of timm that PyTorch does not have (pip install timm):
  tests/support/reference/optimizer_steps.py tests/unit/optim/optimizer_numbers.inc
Weights, gradients and rates are those of tests/unit/optim/ten_steps.hpp."""

import math
import sys

import torch
from timm.optim import Lamb, Lars, Lion

START = [[1, -2, 0.5, 0.25, 3, -1], [0.1, -0.2, 0]]
MADE = {
    "sgd": lambda p: torch.optim.SGD(p, lr=1),
    "sgd momentum": lambda p: torch.optim.SGD(p, lr=1, momentum=0.9),
    "sgd nesterov": lambda p: torch.optim.SGD(p, lr=1, momentum=0.9, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, lr=1, betas=(0.8, 0.99)),
    "adamw": lambda p: torch.optim.AdamW(p, lr=1),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=1),
    "adadelta": lambda p: torch.optim.Adadelta(p, lr=1),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=1),
    "rmsprop momentum": lambda p: torch.optim.RMSprop(p, lr=1, alpha=0.9, eps=1e-3, momentum=0.9),
    "lion": lambda p: Lion(p, lr=1),
    "lars": lambda p: Lars(p, lr=1, momentum=0.9, trust_coeff=0.02, eps=1e-3),
    "lamb": lambda p: Lamb(p, lr=1, betas=(0.9, 0.99), eps=1e-3, max_grad_norm=None),
}


def ten_steps(make):
    tensors = [torch.tensor(values, dtype=torch.float64, requires_grad=True) for values in START]
    optimizer = make([{"params": [tensor], "weight_decay": decay} for tensor, decay in zip(tensors, (0.01, 0.0))])
    for update in range(1, 11):
        gradients = [math.sin(update + 2 * i) * (1 + 0.1 * update) for i in range(9)]
        tensors[0].grad = torch.tensor(gradients[:6], dtype=torch.float64)
        tensors[1].grad = torch.tensor(gradients[6:], dtype=torch.float64)
        for group in optimizer.param_groups:
            group["lr"] = 0.05 if update <= 5 else 0.02
        optimizer.step()
    return [value for tensor in tensors for value in tensor.tolist()]


def main():
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        out.write("// Written by tests/support/reference/optimizer_steps.py: name, nine weights after ten updates. Do not edit.\n")
        for name, make in MADE.items():
            out.write(f'{{"{name}", {{{", ".join(map(repr, ten_steps(make)))}}}}},\n')


if __name__ == "__main__":
    main()
