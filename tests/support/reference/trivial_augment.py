#!/usr/bin/env python3
"""What torchvision's TrivialAugmentWide makes of two made-up pictures, for tests/unit/data/trivial_augment_test.cpp.

    trivial_augment.py
        Prints for each operation the SHA-256 of its results, one after another: on a coloured picture of 47 × 33 and a
        grey one of 40 × 40, with each of the 31 strengths, positive and, where the operation has a sign, negative.
    trivial_augment.py --check
        Exit status 0 when everything needed can be imported.
"""
import hashlib
import sys

from PIL import Image
from torchvision.transforms import InterpolationMode
from torchvision.transforms.autoaugment import TrivialAugmentWide, _apply_op


def picture(width, height, channels):
    values = bytes(40 + (7 * x + 13 * y + 29 * c + x * y % 17 * 5) % 180 for y in range(height) for x in range(width) for c in range(channels))
    return Image.frombytes("RGB" if channels == 3 else "L", (width, height), values)


def digests():
    pictures = [picture(47, 33, 3), picture(40, 40, 1)]
    for name, (strengths, signed) in TrivialAugmentWide()._augmentation_space(31).items():
        together = hashlib.sha256()
        for image in pictures:
            for place in range(31):
                strength = float(strengths[place]) if strengths.ndim > 0 else 0.0
                for value in (strength, -strength) if signed else (strength,):
                    together.update(_apply_op(image, name, value, InterpolationMode.NEAREST, None).tobytes())
        yield name, together.hexdigest()


if sys.argv[1:] != ["--check"]:
    for one in digests():
        print(*one)
