"""Networks that dtrain has trained, in PyTorch, with its preprocessing; a file to copy into your own program.

    network, about = dtrain_models.load("runs/NAME/best.safetensors")
    pictures = torch.stack([dtrain_models.read_picture(path, about["image"]) for path in paths])
    with torch.no_grad():
        scores = dtrain_models.scores(network(pictures), about["task"], about["temperature"], about["background"])  # those of dtrain predict to 1e-5

UNet without an encoder and small_cnn() need torch alone; load() safetensors and PyYAML, and torchvision for its networks; read_picture() NumPy and
Pillow.
"""
import json

import torch
from torch import nn


def double_conv(inputs, outputs):
    layers = []
    for width in (inputs, outputs):
        layers += [nn.Conv2d(width, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """Levels of base, 2, 4 and so on times base channels and a bridge of twice the last; logits of the input's size."""

    def __init__(self, channels=1, outputs=1, base=8, levels=4):
        super().__init__()
        width = [base << level for level in range(levels + 1)]
        self.down = nn.ModuleList([double_conv(channels, width[0])])
        self.down.extend(double_conv(width[level - 1], width[level]) for level in range(1, levels))
        self.bridge = double_conv(width[-2], width[-1])
        upwards = range(levels - 1, -1, -1)
        self.up = nn.ModuleList(nn.ConvTranspose2d(width[level + 1], width[level], 2, stride=2) for level in upwards)
        self.merge = nn.ModuleList(double_conv(2 * width[level], width[level]) for level in upwards)
        self.head = nn.Conv2d(width[0], outputs, 1)

    def forward(self, x):
        skips = []
        for block in self.down:
            skips.append(block(x))
            x = nn.functional.max_pool2d(skips[-1], 2)
        x = self.bridge(x)
        for up, merge in zip(self.up, self.merge):
            x = merge(torch.cat([skips.pop(), up(x)], 1))
        return self.head(x)


def conv_norm(inputs, outputs):
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))


class EncodedUNet(nn.Module):
    """torchvision's ResNet in place of the first half; names and shapes are those of segmentation_models_pytorch's Unet."""

    def __init__(self, encoder, channels=3, outputs=1):
        super().__init__()
        self.encoder = build(encoder, channels, 1, 0, 0)
        inputs, blocks = self.encoder.fc.in_features, nn.ModuleList()
        beside = [inputs // 2, inputs // 4, inputs // 8, 64, 0]
        del self.encoder.fc
        for skip, width in zip(beside, (256, 128, 64, 32, 16)):
            block = nn.Module()
            block.conv1, block.conv2 = conv_norm(inputs + skip, width), conv_norm(width, width)
            blocks.append(block)
            inputs = width
        self.decoder = nn.Module()
        self.decoder.blocks = blocks
        self.segmentation_head = nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1))

    def forward(self, x):
        part = self.encoder
        beside = [part.relu(part.bn1(part.conv1(x)))]
        x = part.maxpool(beside[0])
        for layer in (part.layer1, part.layer2, part.layer3, part.layer4):
            x = layer(x)
            beside.append(x)
        x = beside.pop()
        for block in self.decoder.blocks:
            x = nn.functional.interpolate(x, scale_factor=2)
            if beside:
                x = torch.cat([x, beside.pop()], 1)
            x = block.conv2(block.conv1(x))
        return self.segmentation_head(x)


def small_cnn(channels=3, outputs=2, height=64, width=64, dropout=0.5):
    """Five convolutions, dropout, two dense layers. A Sequential, so that its children are named by their place."""
    layers, inputs = [], channels
    for place, filters in enumerate((16, 32, 32, 64, 64)):
        layers += [nn.Conv2d(inputs, filters, 3, padding=1), nn.ReLU(inplace=True)]
        if place > 0:
            layers.append(nn.MaxPool2d(2))
        inputs = filters
    features = inputs * (height // 16) * (width // 16)
    layers += [nn.Dropout(dropout), nn.Flatten(), nn.Linear(features, 128), nn.ReLU(inplace=True), nn.Linear(128, outputs)]
    return nn.Sequential(*layers)


def build(name, channels, outputs, height, width, dropout=0.5, base=8, levels=4, encoder="none"):
    """`dropout` is small_cnn's, `base`, `levels` and `encoder` are UNet's."""
    if name == "unet":
        return UNet(channels, outputs, base, levels) if encoder == "none" else EncodedUNet(encoder, channels, outputs)
    if name == "small_cnn":
        return small_cnn(channels, outputs, height, width, dropout)
    import torchvision  # here, so that the two above need no torchvision
    network = getattr(torchvision.models, name)(weights=None, num_classes=outputs)
    if channels != 3:  # torchvision's networks take three; dtrain's first convolution takes what there is
        holder, layer = (network.features, "conv0") if name.startswith("densenet") else (network, "conv1")
        setattr(holder, layer, nn.Conv2d(channels, 64, 7, stride=2, padding=3, bias=False))
    return network


def load(path):
    """The network of a best.safetensors in evaluation mode, and about it: task, classes, image (as in the configuration),
    temperature and background (for scores(); 1 and False where there are none) and thresholds (one a class, from which a label is called; [] where none were chosen)."""
    import yaml
    from safetensors import safe_open
    with safe_open(path, "pt") as file:
        told, tensors = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}
    config, classes, fitted = yaml.safe_load(told["config"]), json.loads(told["classes"]), json.loads(told.get("fitted", "{}"))
    image, model = config["data"]["image"], config["model"]
    image.update({key: [float(number) for number in image.get(key) or []] for key in ("range", "mean", "std")})  # PyYAML takes 5e-04 for text
    height, width = map(int, told["image_size"].split(","))
    loss = config["loss"]["name"]  # some have a logit for background, where a mask's classes exclude each other
    background = config["task"] == "segmentation" and (loss in ("cross_entropy", "ce_dice") or (loss == "dice" and len(classes) > 1))
    network = build(model["name"], image["channels"], len(classes) + background, height, width, base=model.get("base_width", 8),
                    levels=model.get("levels", 4), encoder=model.get("encoder", "none"))
    tensors = {name: tensor for name, tensor in tensors.items() if not name.startswith("deep.")}  # loss.deep_supervision: for training alone
    network.load_state_dict(tensors)  # strict: every name and shape
    thresholds = [0.5 if one is None else one for one in fitted.get("thresholds", [])]
    return network.eval(), {"task": config["task"], "classes": classes, "image": image, "temperature": fitted.get("temperature", 1),
                            "thresholds": thresholds, "background": background}


def centred(pixels, size):
    """[C, H, W] cut, or filled up with zeros, to [C, *size] about its middle."""
    padding = []
    for most, is_now in zip(reversed(size), reversed(pixels.shape)):
        before = int((most - is_now) / 2)
        padding += [before, most - is_now - before]
    return nn.functional.pad(pixels, padding)


def read_picture(path, image):
    """What the network sees of a picture: float32 [C, H, W]. `image`: data.image, as load() or an ONNX file tells it."""
    import numpy
    from PIL import Image
    if image.get("slices", 1) > 1 or image.get("files") not in (None, "none"):
        raise ValueError(f"{path}: the network sees several files or pages as one picture; read each with channels 1, and stack them")
    picture = Image.open(path)
    stored = str(picture.tile)  # the layout in the file, such as RGB;16B
    if picture.mode == "F" or ";32" in stored or (";16" in stored and not picture.mode.startswith("I")):
        raise ValueError(f"{path}: Pillow does not read such pixels whole; save it in 8 bits, or grey in 16 bits without alpha")
    if not picture.mode.startswith("I"):  # those have 16 bits
        picture = picture.convert("L" if picture.mode in ("1", "L", "LA") else "RGB")
    low, high = image.get("range") or (0, 65535 if picture.mode.startswith("I") else 255)
    pixels = numpy.clip((numpy.asarray(picture, numpy.float32) - low) / (high - low), 0, 1).reshape(picture.height, picture.width, -1)
    shown, size = [picture.height, picture.width], image["size"]
    scales = [most / side for most, side in zip(size, shown)]
    if image["resize"] != "squash":
        scales = [min(scales) if image["resize"] == "pad" else max(scales)] * 2
    shown = [max(1, int(scale * side + 0.5)) for scale, side in zip(scales, shown)]
    planes = [Image.fromarray(plane).resize(shown[::-1], Image.Resampling.BILINEAR) for plane in pixels.transpose(2, 0, 1)]
    pixels = centred(torch.from_numpy(numpy.stack(planes)), size)
    if len(pixels) > image["channels"]:
        pixels = (torch.tensor([0.299, 0.587, 0.114]).view(3, 1, 1) * pixels).sum(0, keepdim=True)
    mean, std = (torch.tensor(image[key]).view(-1, 1, 1) for key in ("mean", "std"))
    return (centred(pixels, image.get("window") or size) - mean) / std


def scores(logits, task, temperature=1, background=False):
    """Probabilities: of one class of several for multiclass, else independent ones. `temperature`, `background`: of load(); with
    background, which has the first logit and no score, the classes of a mask exclude each other."""
    logits = logits / temperature
    if background:
        return logits.softmax(1)[:, 1:]
    return logits.softmax(1) if task == "multiclass" else logits.sigmoid()
