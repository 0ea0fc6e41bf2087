#!/usr/bin/env python3
"""Files in the layout of Keras for tests of scripts/convert_weights, with random weights.

    keras_weights.py DIR    writes files to DIR, converts each by convert_weights, and prints JSON: what it said of each.
                            whole.h5: DenseNet-121 with two outputs, a whole model; weights.h5: by save_weights()
                            resnet.h5: ResNet-50 with 1000 outputs; resnet_notop.h5: without its last layer
                            headless.h5, vgg.h5, keras3.h5, text.h5: to be refused, and resnet_notop.h5 without --input
Status 0 when torchvision's networks with the converted weights compute what Keras' would: the same network with Keras'
epsilon and the variances as they were written; of ResNet-50 also with Keras' biases, strides and pictures.
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


def resnet_layers():
    yield "conv1_conv", "conv1", "biased"
    yield "conv1_bn", "bn1", "norm"
    for stage, count in enumerate((3, 4, 6, 3), start=1):
        for i in range(1, count + 1):
            here, there = f"conv{stage + 1}_block{i}", f"layer{stage}.{i - 1}"
            if i == 1:
                yield f"{here}_0_conv", f"{there}.downsample.0", "biased"
                yield f"{here}_0_bn", f"{there}.downsample.1", "norm"
            for place in (1, 2, 3):
                yield f"{here}_{place}_conv", f"{there}.conv{place}", "biased"
                yield f"{here}_{place}_bn", f"{there}.bn{place}", "norm"
    yield "predictions", "fc", "dense"


def network():
    return torchvision.models.densenet121(weights=None, num_classes=2)


def keras_strides(net):
    """Keras' and the paper's ResNet: a block halves the picture in its first convolution."""
    for stage in (net.layer2, net.layer3, net.layer4):
        stage[0].conv1.stride, stage[0].conv2.stride = (2, 2), (1, 1)
    return net


def keras_resnet():
    net = keras_strides(torchvision.models.resnet50(weights=None))
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            module.bias = nn.Parameter(torch.randn(module.out_channels) * 0.1)
    return net


def random_weights(make):
    torch.manual_seed(4)
    net = make()
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, 0, 0.1)
            nn.init.normal_(module.running_mean, 0, 0.1)
            if not isinstance(net, torchvision.models.ResNet):
                nn.init.uniform_(module.running_var, 1e-5, 1e-3)  # small, so that it shows which epsilon is added
    return net.state_dict()


def tensors_of(kind, name, weights):
    if kind == "norm":
        for theirs, ours in (("gamma", "weight"), ("beta", "bias"), ("moving_mean", "running_mean"), ("moving_variance", "running_var")):
            yield theirs, weights[f"{name}.{ours}"].numpy()
    elif kind in ("conv", "biased"):
        yield "kernel", weights[f"{name}.weight"].permute(2, 3, 1, 0).numpy()
        if kind == "biased":
            yield "bias", weights[f"{name}.bias"].numpy()
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
    weights = random_weights(network)
    save_file(weights, folder / "written.safetensors")
    every = list(layers())
    with h5py.File(folder / "whole.h5", "w") as file:
        file.attrs["model_config"] = MODEL
        write_layers(file.create_group("model_weights"), every, weights)
    for name, chosen in (("weights", every), ("headless", every[:-1])):
        with h5py.File(folder / f"{name}.h5", "w") as file:
            write_layers(file, chosen, weights)
    with h5py.File(folder / "vgg.h5", "w") as file:
        write_layers(file, [("block1_conv1", "features.conv0", "conv")], weights)
    residual = random_weights(keras_resnet)
    save_file(residual, folder / "residual.safetensors")
    every = list(resnet_layers())
    for name, chosen in (("resnet", every), ("resnet_notop", every[:-1])):
        with h5py.File(folder / f"{name}.h5", "w") as file:
            write_layers(file, chosen, residual)
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
    torch.manual_seed(5)
    x = torch.randn(2, 3, 64, 64, dtype=torch.float64)
    with torch.no_grad():
        expected = keras(x)
        difference = ((mine(x) - expected).abs().max() / expected.abs().max()).item()
        for module in mine.modules():  # the judge would notice the other epsilon
            if isinstance(module, nn.BatchNorm2d):
                module.eps = EPSILON
        moved = ((mine(x) - expected).abs().max() / expected.abs().max()).item()
    assert difference < 1e-6 < moved, (difference, moved)


def judge_resnet(folder, name):
    written, found = load_file(folder / "residual.safetensors"), load_file(folder / f"{name}.safetensors")
    keras, mine = keras_resnet().double().eval(), keras_strides(torchvision.models.resnet50(weights=None)).double().eval()
    if "fc.weight" not in found:
        found |= {key: written[key] for key in ("fc.weight", "fc.bias")}
    keras.load_state_dict(written)
    for module in keras.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.eps = EPSILON
    missing, unexpected = mine.load_state_dict(found, strict=False)
    assert not unexpected and all(key.endswith("num_batches_tracked") for key in missing), (missing, unexpected)
    pixels = torch.rand(2, 3, 64, 64, dtype=torch.float64) * 255
    mean, std = torch.tensor([123.68, 116.779, 103.939], dtype=torch.float64), torch.tensor([0.229, 0.224, 0.225], dtype=torch.float64)
    theirs = (pixels - mean.view(3, 1, 1)).flip(1)
    ours = (pixels / 255 - (mean / 255).view(3, 1, 1)) / std.view(3, 1, 1)
    with torch.no_grad():
        expected = keras(theirs)
        difference = ((mine(ours) - expected).abs().max() / expected.abs().max()).item()
        swapped = ((mine(ours.flip(1)) - expected).abs().max() / expected.abs().max()).item()
    assert difference < 1e-5 < 1e-3 < swapped, (difference, swapped)


def converted(folder, name, *words):
    """What convert_weights says, run in this process because importing torch takes longer than all else."""
    sys.argv[1:] = [str(folder / f"{name}.h5"), str(folder / f"{name}.safetensors"), *words]
    with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.redirect_stderr(said):
        try:
            runpy.run_path(str(pathlib.Path(__file__).resolve().parents[3] / "scripts/convert_weights"), run_name="__main__")
        except SystemExit as end:
            return [end.code, said.getvalue()]


def main():
    folder = pathlib.Path(sys.argv[1])
    write(folder)
    said = {name: converted(folder, name) for name in ("whole", "weights", "headless", "resnet", "vgg", "keras3", "text")}
    said["unsaid"] = converted(folder, "resnet_notop")
    said["resnet_notop"] = converted(folder, "resnet_notop", "--input", "caffe")
    print(json.dumps(said))
    for name in ("whole", "weights"):
        judge(folder, name)
    for name in ("resnet", "resnet_notop"):
        judge_resnet(folder, name)


main()
