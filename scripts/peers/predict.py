#!/usr/bin/env python3
"""Scores of a folder of PNG and JPEG files by torchvision's DenseNet-121, as a plain PyTorch program writes them.

  scripts/peers/predict.py --weights runs/chexnet/best.safetensors --input new --output scores.csv
  scripts/peers/predict.py --weights best.safetensors --input new --output scores.csv --workers 1

The weights are those that dtrain keeps; the pictures are prepared as its configuration says (resize: squash). Under torchrun each
process takes its share of the files, and the first writes the table. Prints one JSON line; scripts/peers/README.md
defines its figures.
"""
import argparse
import csv
import json
import pathlib
import time

import torch
import torchvision
import yaml
from PIL import Image
from safetensors import safe_open
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

import peer
import standard


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", required=True, metavar="FILE", help="best.safetensors of a densenet121")
    parser.add_argument("--input", type=pathlib.Path, required=True, metavar="DIR", help="folder of PNG and JPEG files, at any depth")
    parser.add_argument("--output", required=True, metavar="FILE", help="table to write: the file, a probability for each class")
    parser.add_argument("--batch", type=int, default=standard.PREDICT_BATCH, metavar="N", help="default %(default)s")
    parser.add_argument("--workers", type=int, default=0, metavar="N", help="processes that load for each one (default 0: itself)")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="of each process (default 1)")
    parser.add_argument("--channels-last", action="store_true", help="memory layout NHWC instead of NCHW")
    return parser.parse_args()


class Pictures(Dataset):
    def __init__(self, files, image):
        self.files = files
        self.transform = transforms.Compose([transforms.Resize(image["size"], antialias=True), transforms.ToTensor(),
                                             transforms.Normalize(image["mean"], image["std"])])

    def __len__(self):
        return len(self.files)

    def __getitem__(self, i):
        with Image.open(self.files[i]) as picture:
            return self.transform(picture.convert("RGB"))


def main():
    args = arguments()
    started = time.perf_counter()
    torch.set_num_threads(args.threads)
    rank, ranks = peer.join("gloo")
    with safe_open(args.weights, "pt") as file:
        about = file.metadata()
        weights = {name: file.get_tensor(name) for name in file.keys()}
    config, classes = yaml.safe_load(about["config"]), json.loads(about["classes"])
    network = torchvision.models.densenet121(num_classes=len(classes))
    network.load_state_dict(weights)
    network.eval()
    layout = torch.channels_last if args.channels_last else torch.contiguous_format
    network.to(memory_format=layout)
    files = sorted(str(path) for path in args.input.rglob("*") if path.suffix.lower() in (".png", ".jpg", ".jpeg"))
    mine, rows = files[rank::ranks], []
    with torch.inference_mode():
        for images in DataLoader(Pictures(mine, config["data"]["image"]), args.batch, num_workers=args.workers):
            rows += network(images.to(memory_format=layout)).sigmoid().tolist()
    every = [row for part in peer.from_all_ranks(list(zip(mine, rows))) for row in part]
    if rank == 0:
        with open(args.output, "w", encoding="utf-8", newline="") as out:
            csv.writer(out).writerows([("path", *classes), *((path, *row) for path, row in sorted(every))])
        seconds = time.perf_counter() - started
        peer.report(program="predict", **{**vars(args), "input": str(args.input)}, processes=ranks, files=len(files),
                    seconds=round(seconds, 3), torchvision=torchvision.__version__)
    peer.leave()


if __name__ == "__main__":
    main()
