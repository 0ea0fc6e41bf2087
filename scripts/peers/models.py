"""The networks of dtrain in plain PyTorch: what its C++ ones are measured and checked against.

Those that are not defined here are torchvision's own, found by name. UNet and SmallCNN define the parameter names that
dtrain's weights files use for those two: load_state_dict() of these classes takes a best.safetensors as it is.
"""
import torch
from torch import nn


def double_conv(inputs, outputs):
    layers = []
    for width in (inputs, outputs):
        layers += [nn.Conv2d(width, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """Four levels of base, 2, 4, 8 times base channels and a bridge of 16 times base; logits of the input's size."""

    def __init__(self, channels=1, outputs=1, base=8):
        super().__init__()
        width = [base << level for level in range(5)]
        self.down = nn.ModuleList([double_conv(channels, width[0])])
        self.down.extend(double_conv(width[level - 1], width[level]) for level in (1, 2, 3))
        self.bridge = double_conv(width[3], width[4])
        self.up = nn.ModuleList(nn.ConvTranspose2d(width[level + 1], width[level], 2, stride=2) for level in (3, 2, 1, 0))
        self.merge = nn.ModuleList(double_conv(2 * width[level], width[level]) for level in (3, 2, 1, 0))
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


def build(name, channels, outputs, height, width, dropout=0.5):
    """`dropout` is small_cnn's; the others have none. 0 where results are compared: dtrain draws its own random numbers."""
    if name == "unet":
        return UNet(channels, outputs)
    if name == "small_cnn":
        return small_cnn(channels, outputs, height, width, dropout)
    import torchvision  # here, so that the two above need no torchvision
    assert channels == 3, "torchvision's networks take three channels"
    return getattr(torchvision.models, name)(weights=None, num_classes=outputs)


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
