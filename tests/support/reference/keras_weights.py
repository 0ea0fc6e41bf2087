#!/usr/bin/env python3
"""Files in the layout of Keras for tests of scripts/convert_weights, with random weights.

    keras_weights.py DIR    writes files to DIR, converts each by convert_weights, and prints JSON: what it said of each.
                            whole.h5: DenseNet-121 with two outputs, a whole model; weights.h5: by save_weights()
                            headless.h5, resnet.h5, keras3.h5, text.h5: to be refused
Status 0 when torchvision's DenseNet-121 with the converted weights computes what Keras' would: the same network with Keras'
epsilon and the variances as they were written.
Names are those of keras.applications, written down here from its source, not taken from convert_weights.
"""
import contextlib
import io
import json
import pathlib
import runpy
import sys

import h5py
import torch
import torchvision
from safetensors.torch import load_file, save_file
from torch import nn

EPSILON = 1.001e-5
MODEL = '{"class_name": "Functional", "config": {"layers": [{"config": {"axis": [3], "epsilon": 1.001e-05, "name": "bn"}}]}}'


def layers():
    """(Keras' name, torchvision's, kind), in the order of the network."""
    yield "conv1/conv", "features.conv0", "conv"
    yield "conv1/bn", "features.norm0", "norm"
    for stage, count in enumerate((6, 12, 24, 16), start=1):
        for i in range(1, count + 1):
            here, there = f"conv{stage + 1}_block{i}", f"features.denseblock{stage}.denselayer{i}"
            yield f"{here}_0_bn", f"{there}.norm1", "norm"
            yield f"{here}_1_conv", f"{there}.conv1", "conv"
            yield f"{here}_1_bn", f"{there}.norm2", "norm"
            yield f"{here}_2_conv", f"{there}.conv2", "conv"
        if stage < 4:
            yield f"pool{stage + 1}_bn", f"features.transition{stage}.norm", "norm"
            yield f"pool{stage + 1}_conv", f"features.transition{stage}.conv", "conv"
    yield "bn", "features.norm5", "norm"
    yield "predictions", "classifier", "dense"


def network():
    return torchvision.models.densenet121(weights=None, num_classes=2)


def random_weights():
    torch.manual_seed(4)
    net = network()
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, 0, 0.1)
            nn.init.normal_(module.running_mean, 0, 0.1)
            nn.init.uniform_(module.running_var, 1e-5, 1e-3)  # small, so that it shows which epsilon is added
    return net.state_dict()


def tensors_of(kind, name, weights):
    if kind == "norm":
        for theirs, ours in (("gamma", "weight"), ("beta", "bias"), ("moving_mean", "running_mean"), ("moving_variance", "running_var")):
            yield theirs, weights[f"{name}.{ours}"].numpy()
    elif kind == "conv":
        yield "kernel", weights[f"{name}.weight"].permute(2, 3, 1, 0).numpy()
    else:
        yield "kernel", weights[f"{name}.weight"].T.numpy()
        yield "bias", weights[f"{name}.bias"].numpy()


def write_layers(group, chosen, weights):
    group.attrs["layer_names"] = [name.encode() for name, _, _ in chosen]
    for name, ours, kind in chosen:
        layer = group.create_group(name)
        named = [(f"{name}/{tensor}:0", values) for tensor, values in tensors_of(kind, ours, weights)]
        layer.attrs["weight_names"] = [place.encode() for place, _ in named]
        for place, values in named:
            layer[place] = values


def write(folder):
    weights = random_weights()
    save_file(weights, folder / "written.safetensors")
    every = list(layers())
    with h5py.File(folder / "whole.h5", "w") as file:
        file.attrs["model_config"] = MODEL
        write_layers(file.create_group("model_weights"), every, weights)
    for name, chosen in (("weights", every), ("headless", every[:-1])):
        with h5py.File(folder / f"{name}.h5", "w") as file:
            write_layers(file, chosen, weights)
    with h5py.File(folder / "resnet.h5", "w") as file:
        write_layers(file, [("conv1_conv", "features.conv0", "conv"), ("conv2_block1_2_bn", "features.norm0", "norm")], weights)
    with h5py.File(folder / "keras3.h5", "w") as file:
        file.create_group("layers/conv2d/vars")["0"] = weights["features.conv0.weight"].numpy()
    (folder / "text.h5").write_text("weights?")


def judge(folder, name):
    converted = load_file(folder / f"{name}.safetensors")
    written = load_file(folder / "written.safetensors")
    keras, mine = network().double().eval(), network().double().eval()
    keras.load_state_dict(written)
    for module in keras.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.eps = EPSILON
    missing, unexpected = mine.load_state_dict(converted, strict=False)
    assert not unexpected and all(key.endswith("num_batches_tracked") for key in missing), (missing, unexpected)
    x = torch.randn(2, 3, 64, 64, dtype=torch.float64)
    with torch.no_grad():
        expected = keras(x)
        difference = ((mine(x) - expected).abs().max() / expected.abs().max()).item()
        for module in mine.modules():  # the judge would notice the other epsilon
            if isinstance(module, nn.BatchNorm2d):
                module.eps = EPSILON
        moved = ((mine(x) - expected).abs().max() / expected.abs().max()).item()
    assert difference < 1e-6 < moved, (difference, moved)


def converted(folder, name):
    """What convert_weights says, run in this process because importing torch takes longer than all else."""
    sys.argv[1:] = [str(folder / f"{name}.h5"), str(folder / f"{name}.safetensors")]
    with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.redirect_stderr(said):
        try:
            runpy.run_path(str(pathlib.Path(__file__).resolve().parents[3] / "scripts/convert_weights"), run_name="__main__")
        except SystemExit as end:
            return [end.code, said.getvalue()]


def main():
    folder = pathlib.Path(sys.argv[1])
    write(folder)
    print(json.dumps({name: converted(folder, name) for name in ("whole", "weights", "headless", "resnet", "keras3", "text")}))
    for name in ("whole", "weights"):
        judge(folder, name)


main()
