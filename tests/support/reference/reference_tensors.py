#!/usr/bin/env python3
"""Reference results of PyTorch for the networks of dtrain.

    reference_tensors.py --out DIR --model NAME ...
        MODEL.weights.safetensors    random weights with random BatchNorm statistics, float32
        MODEL.reference.safetensors  input, target (float32, int64) and for them
                                     eval32, train32            logits in float32
                                     eval64, train64, loss64    logits and training loss in float64
                                     grad64.NAME, after64.NAME  every gradient; every buffer after the training pass
        MODEL.pth                    the same weights with --pth, as training scripts save them: under "state_dict",
                                     with "module." before each name, DenseNet's in their old form, no counters
    reference_tensors.py --numbers tests/unit/model/reference_numbers.inc --model NAME ...
        A few float64 numbers per model, for weights made by a formula that C++ repeats: parity without Python. Those of
        the others stay as they are in the file: the last digits change from machine to machine.
    reference_tensors.py --check
        Exit status 0 when everything needed can be imported.

One intra-op thread, batch 4 (2 for --numbers), 64 x 64 pixels. Needs torch, torchvision, safetensors, numpy.
"""
import argparse
import hashlib
import os
import pathlib
import re
import sys

import numpy
import torch
from safetensors.torch import save_file
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "scripts/peers"))
import models  # noqa: E402

SIDE = 64
# Where they are not these: three channels and 14 outputs, as reference_shape() of tests/unit/model/test_tools.cpp has
# them, and 1000 outputs of the network whose names are hashed.
CHANNELS = {"unet": 1, "unet_levels2": 1}
OUTPUTS = {"small_cnn": 2}
RATE = 1e-6  # of the step after which a loss is given: small, as the gradient of the deepest network is 1e4


def per_pixel(name):
    return name.startswith("unet")


def built(name, outputs=14):
    """A name of dtrain's; unet_levels2 has two levels, unet_resnet18 that encoder: from segmentation_models_pytorch where it is
    installed."""
    network, _, variant = name.partition("_") if per_pixel(name) else (name, "", "")
    channels, outputs = CHANNELS.get(name, 3), 1 if per_pixel(name) else OUTPUTS.get(name, outputs)
    if variant.startswith("levels"):
        return models.build(network, channels, outputs, SIDE, SIDE, levels=int(variant[len("levels"):]))
    if not variant:
        return models.build(network, channels, outputs, SIDE, SIDE, dropout=0)
    try:
        import segmentation_models_pytorch
    except ImportError:
        return models.build(network, channels, outputs, SIDE, SIDE, encoder=variant)
    return segmentation_models_pytorch.Unet(variant, encoder_weights=None, in_channels=channels, classes=outputs)


def passes(name, net, x, y):
    """Logits in evaluation mode, then logits and loss in training mode; gradients are left in `net`."""
    with torch.no_grad():
        evaluated = net.eval()(x)
    trained = net.train()(x)
    loss = models.loss_of(name)(trained, y)
    loss.backward()
    return evaluated, trained.detach(), loss.detach()


def batch(name, n, draw):
    x = draw("input", (n, CHANNELS.get(name, 3), SIDE, SIDE))
    outputs = 1 if per_pixel(name) else OUTPUTS.get(name, 14)
    if name == "small_cnn":
        return x, torch.arange(n) % outputs
    shape = (n, outputs, SIDE, SIDE) if per_pixel(name) else (n, outputs)
    return x, (draw("target", shape) > 0).to(x.dtype)


def write_pth(weights, path):
    old = {re.sub(r"(denselayer\d+\.(?:norm|conv))([12])\.", r"\1.\2.", key): tensor for key, tensor in weights.items()}
    kept = {"module." + key: tensor for key, tensor in old.items() if not key.endswith("num_batches_tracked")}
    torch.save({"epoch": 3, "state_dict": kept}, path)


def write_tensors(name, out, with_pth):
    torch.manual_seed(1)
    net = built(name)
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, 0, 0.1)
            nn.init.normal_(module.running_mean, 0, 0.1)
            nn.init.uniform_(module.running_var, 0.5, 1.5)
    x, y = batch(name, 4, lambda _, shape: torch.randn(shape))
    weights = {key: tensor.clone() for key, tensor in net.state_dict().items()}
    save_file(weights, os.path.join(out, f"{name}.weights.safetensors"))
    if with_pth:
        write_pth(weights, os.path.join(out, f"{name}.pth"))
    result = {"input": x, "target": y}
    result["eval32"], result["train32"], _ = passes(name, net, x, y)
    net.load_state_dict(weights)
    net = net.double()
    net.zero_grad(set_to_none=True)
    wide_y = y.double() if y.is_floating_point() else y
    result["eval64"], result["train64"], result["loss64"] = passes(name, net, x.double(), wide_y)
    result |= {f"grad64.{key}": p.grad for key, p in net.named_parameters()}
    result |= {f"after64.{key}": b for key, b in net.named_buffers()}
    save_file({key: tensor.contiguous() for key, tensor in result.items()}, os.path.join(out, f"{name}.reference.safetensors"))


def formula(key, shape):
    """float64 in [-1, 1): FNV-1a of `key` and the index, mixed as in SplitMix64. parity_test.cpp has the same formula
    in C++."""
    state = 0xCBF29CE484222325
    for byte in key.encode():
        state = (state ^ byte) * 0x100000001B3 % 2**64
    count = int(numpy.prod(shape, dtype=numpy.int64))
    v = numpy.uint64(state) + numpy.arange(count, dtype=numpy.uint64) * numpy.uint64(0x9E3779B97F4A7C15)
    v = (v ^ (v >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
    v = (v ^ (v >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
    v = v ^ (v >> numpy.uint64(31))
    return torch.from_numpy((v >> numpy.uint64(11)).astype(numpy.float64) * 2.0**-52 - 1.0).reshape(shape)


def fill_by_formula(net):
    with torch.no_grad():
        for key, tensor in net.state_dict().items():
            if not tensor.is_floating_point():
                continue
            value = formula(key, tuple(tensor.shape))
            if tensor.dim() > 1:
                value = value * (6.0 / (tensor.numel() // tensor.shape[0])) ** 0.5
            elif key.endswith("running_var"):
                value = 1.0 + 0.5 * value
            elif key.endswith(".weight"):
                value = 1.0 + 0.2 * value
            else:
                value = 0.1 * value
            tensor.copy_(value)


def projected(named):
    return sum((tensor * formula("probe " + key, tuple(tensor.shape))).sum().item() for key, tensor in named)


def numbers_of(name):
    listed = built(name, outputs=1000)
    lines = sorted(f"{key} {','.join(map(str, t.shape))}\n" for key, t in listed.state_dict().items())
    net = built(name).double()
    fill_by_formula(net)
    x, y = batch(name, 2, formula)
    evaluated, trained, loss = passes(name, net, x, y)
    gradients = [(key, p.grad) for key, p in net.named_parameters()]
    statistics = [(key, b) for key, b in net.named_buffers() if b.is_floating_point()]
    values = [loss.item(), projected([("eval", evaluated)]), projected([("train", trained)]),
              sum((g**2).sum().item() for _, g in gradients) ** 0.5, projected(gradients), projected(statistics)]
    with torch.no_grad():
        for parameter in net.parameters():
            parameter -= RATE * parameter.grad
        values.append(models.loss_of(name)(net(x), y).item())
    return (f'    {{"{name}", {1 if per_pixel(name) else OUTPUTS.get(name, 1000)}, {len(lines)}, {sum(p.numel() for p in listed.parameters())},\n'
            f'     "{hashlib.sha256("".join(lines).encode()).hexdigest()}",\n'
            f'     {", ".join(float(v).hex() for v in values[:3])},\n     {", ".join(float(v).hex() for v in values[3:])}}},\n')


def write_numbers(path, names):
    """Replaces existing entries where they are, and adds new ones at the end."""
    rows = {}
    if os.path.exists(path):
        with open(path) as old:
            rows = {name: row for row, name in re.findall(r'^( *{"(\w+)"[^}]*},\n)', old.read(), re.MULTILINE)}
    rows |= {name: numbers_of(name) for name in names}
    with open(path, "w") as out:
        out.write("// Written by tests/support/reference/reference_tensors.py --numbers with torch "
                  f"{torch.__version__.split('+')[0]}. Do not edit.\n"
                  "// Model, outputs of the listed tensors, tensors, parameters, SHA-256 of the sorted lines \"name shape\";\n"
                  "// training loss, projections of the logits in evaluation and training mode; norm and projection of the\n"
                  "// gradient, projection of the running statistics after the pass, training loss after a step of plain descent.\n")
        out.writelines(rows.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", metavar="DIR", help="folder, made if absent")
    parser.add_argument("--model", metavar="NAME", action="append", default=[], help="one of dtrain's; may be repeated")
    parser.add_argument("--pth", action="store_true", help="with --out")
    parser.add_argument("--numbers", metavar="FILE")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    if not args.check and not args.model:
        parser.error("wants --model NAME")
    torch.set_num_threads(1)
    if args.check:
        import torchvision  # noqa: F401
    if args.out:
        os.makedirs(args.out, exist_ok=True)
        for name in args.model:
            write_tensors(name, args.out, args.pth)
    if args.numbers:
        write_numbers(args.numbers, args.model)
    return 0


if __name__ == "__main__":
    sys.exit(main())
