#!/usr/bin/env python3
"""Rate at which Pillow and torchvision turn a folder of PNG and JPEG files into batches, on one core.

  scripts/peers/load_pictures.py --root pictures --size 224
  scripts/peers/load_pictures.py --root pictures --decoder torchvision --workers 4

Each picture: read, decoded to RGB, resized with antialiasing, mirrored or not, to float, normalised; DataLoader makes
the batches. The first pass over the folder is a warm-up. Prints one JSON line; scripts/peers/README.md defines its
figures.
"""
import argparse
import pathlib
import resource
import sys
import time

import PIL
import torch
import torchvision
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms
from torchvision.io import ImageReadMode, decode_image

import peer
import standard


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, required=True, metavar="DIR", help="folder of PNG and JPEG files, at any depth")
    parser.add_argument("--size", type=int, default=standard.INPUT_SIZE, metavar="N", help="pixels a side (default %(default)s)")
    parser.add_argument("--batch", type=int, default=standard.INPUT_BATCH, metavar="N", help="default %(default)s")
    parser.add_argument("--passes", type=int, default=2, metavar="N", help="measured passes over the folder (default 2)")
    parser.add_argument("--workers", type=int, default=0, metavar="N", help="processes that load (default 0: the main one)")
    parser.add_argument("--decoder", choices=("pillow", "torchvision"), default="pillow", help="torchvision: its own decode_image")
    return parser.parse_args()


class Pictures(Dataset):
    def __init__(self, files, size, decoder):
        to_float = transforms.ToTensor() if decoder == "pillow" else transforms.ConvertImageDtype(torch.float32)
        self.files, self.decoder = files, decoder
        self.transform = transforms.Compose([
            transforms.Resize((size, size), antialias=True), transforms.RandomHorizontalFlip(), to_float,
            transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])])

    def __len__(self):
        return len(self.files)

    def __getitem__(self, i):
        if self.decoder == "pillow":
            with Image.open(self.files[i]) as picture:
                return self.transform(picture.convert("RGB"))
        return self.transform(decode_image(self.files[i], ImageReadMode.RGB))


def processor_seconds():
    """Of this process and of the workers that have ended."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def main():
    args = arguments()
    torch.set_num_threads(1)
    files = sorted(str(path) for path in args.root.rglob("*") if path.suffix.lower() in (".png", ".jpg", ".jpeg"))
    if not files:
        sys.exit(f"load_pictures.py: there is no PNG or JPEG file in {args.root}")
    processor = processor_seconds()
    loader = DataLoader(Pictures(files, args.size, args.decoder), args.batch, shuffle=True, num_workers=args.workers,
                        persistent_workers=args.workers > 0)

    def seconds_of_a_pass():
        started = time.perf_counter()
        for _ in loader:
            pass
        return time.perf_counter() - started

    seconds_of_a_pass()
    seconds = [seconds_of_a_pass() for _ in range(args.passes)]
    loader = None  # ends the workers, so that their processor time is counted
    processor = processor_seconds() - processor
    peer.report(program="load_pictures", **{**vars(args), "root": str(args.root)}, files=len(files),
                images_per_s=round(len(files) * args.passes / sum(seconds), 2),
                images_per_s_passes=[round(len(files) / one, 2) for one in seconds],
                processor_ms=round(processor * 1e3 / (len(files) * (args.passes + 1)), 3),
                torchvision=torchvision.__version__, pillow=PIL.__version__)


if __name__ == "__main__":
    main()
