#!/usr/bin/env python3
"""Step rate of PyTorch's DistributedDataParallel on made-up pictures that lie in memory.

  OMP_NUM_THREADS=1 torchrun --standalone --nproc-per-node 2 scripts/peers/ddp_step.py --model resnet50
  OMP_NUM_THREADS=1 torchrun --standalone --nproc-per-node 2 scripts/peers/ddp_step.py --model unet --channels-last
  torchrun --standalone --nproc-per-node 1 scripts/peers/ddp_step.py --backend nccl --batch 64 --steps 100

One step: zero the gradients, forward, loss, backward with its all-reduce, optimizer. No loader, metrics or logs. After the
steps as many forward passes in evaluation under inference_mode.
Batch, picture and number of steps follow the model (standard.py) unless they are given. Started without torchrun it is
one rank. Rank 0 prints one JSON line; scripts/peers/README.md defines its figures.
"""
import argparse
import os
import resource
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import models
import peer
import standard


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", choices=("gloo", "nccl"), default="gloo", help="gloo: CPU (default); nccl: one GPU a rank")
    parser.add_argument("--model", choices=standard.JOBS, default="densenet121")
    for name in ("batch", "height", "width", "channels", "outputs", "steps"):
        parser.add_argument(f"--{name}", type=int, metavar="N", help="default: the model's in standard.py")
    parser.add_argument("--warmup-steps", type=int, default=2, metavar="N", help="before the measured ones (default 2)")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="CPU threads of a rank (default 1)")
    parser.add_argument("--channels-last", action="store_true", help="memory layout NHWC; default NCHW")
    parser.add_argument("--optimizer", choices=("sgd", "adam"), default="sgd", help="sgd: with momentum 0.9")
    parser.add_argument("--precision", choices=("fp32", "tf32", "bf16"), default="fp32",
                        help="tf32: of matrix products and convolutions on a GPU; bf16: autocast")
    parser.add_argument("--compile", action="store_true", help="torch.compile of the network, before the warm-up steps")
    parser.add_argument("--fused", action="store_true", help="the optimizer's fused kernel")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    for name, value in vars(standard.JOBS[args.model]).items():
        if name != "task" and getattr(args, name) is None:
            setattr(args, name, value)
    if args.model in ("densenet121", "resnet50") and args.channels != 3:
        parser.error(f"torchvision's {args.model} takes three channels, not {args.channels}")
    if args.steps < 1:
        parser.error("--steps is at least 1")
    return args


def device_of(args):
    if args.backend == "gloo":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        sys.exit("ddp_step.py: --backend nccl needs a CUDA GPU and a CUDA build of torch; use --backend gloo")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
    torch.cuda.set_device(device)
    torch.backends.cudnn.benchmark = True
    return device


class Clock:
    """Marks in time: events of the device's stream on CUDA, the host's clock elsewhere."""

    def __init__(self, device):
        self.cuda, self.marks = device.type == "cuda", []

    def drain(self):
        """Until every rank's work is done."""
        if self.cuda:
            torch.cuda.synchronize()
        dist.barrier()

    def mark(self):
        if self.cuda:
            self.marks.append(torch.cuda.Event(enable_timing=True))
            self.marks[-1].record()
        else:
            self.marks.append(time.perf_counter())

    def milliseconds(self):
        pairs = zip(self.marks, self.marks[1:])
        return [a.elapsed_time(b) if self.cuda else (b - a) * 1e3 for a, b in pairs]


def measured(work, args, device):
    """Seconds of args.steps calls on all ranks, milliseconds of each on this one, and what the last call returned."""
    for _ in range(args.warmup_steps):
        work()
    clock = Clock(device)
    clock.drain()
    started = time.perf_counter()
    clock.mark()
    for _ in range(args.steps):
        last = work()
        clock.mark()
    clock.drain()
    return time.perf_counter() - started, clock.milliseconds(), last


def main():
    args = arguments()
    device = device_of(args)
    torch.set_num_threads(args.threads)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = args.precision == "tf32"
    autocast = torch.autocast(device.type, torch.bfloat16, enabled=args.precision == "bf16")
    rank, ranks = peer.join(args.backend)
    torch.manual_seed(args.seed)  # the same start everywhere
    layout = torch.channels_last if args.channels_last else torch.contiguous_format
    net = models.build(args.model, args.channels, args.outputs, args.height, args.width)
    net = net.to(device, memory_format=layout).train()
    wrapped = DistributedDataParallel(net, device_ids=[device.index] if device.type == "cuda" else None)
    if args.compile:
        wrapped = torch.compile(wrapped)
    fused = {"fused": True} if args.fused else {}
    if args.optimizer == "sgd":
        optimizer = torch.optim.SGD(net.parameters(), standard.LEARNING_RATE, momentum=standard.MOMENTUM, **fused)
    else:
        optimizer = torch.optim.Adam(net.parameters(), standard.LEARNING_RATE, **fused)
    loss_of = models.loss_of(args.model)
    pixels, targets = models.made_up_batch(args.model, args.batch, args.channels, args.outputs, args.height, args.width,
                                           args.seed + 1 + rank)
    pixels, targets = pixels.to(device, memory_format=layout), targets.to(device)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with autocast:
            outputs = wrapped(pixels)
        loss = loss_of(outputs.float(), targets)
        loss.backward()
        optimizer.step()
        return loss

    seconds, milliseconds, loss = measured(step, args, device)
    memory_mb = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6, 1)
    gpu_memory_mb = round(torch.cuda.max_memory_reserved() / 1e6, 1) if device.type == "cuda" else None
    net.eval()
    evaluated = torch.compile(net) if args.compile else net
    with torch.inference_mode(), autocast:
        forward_seconds, _, _ = measured(lambda: evaluated(pixels), args, device)

    every = peer.from_all_ranks({
        "loss": round(loss.item(), 6),
        "memory_mb": memory_mb,
        "gpu_memory_mb": gpu_memory_mb})
    if rank == 0:
        times = {f"step_{name}": value for name, value in peer.spread(milliseconds).items()}
        peer.report(program="ddp_step", **vars(args), ranks=ranks, **times,
                    images_per_s=round(args.batch * ranks * args.steps / seconds, 3),
                    forward_images_per_s=round(args.batch * ranks * args.steps / forward_seconds, 3),
                    memory_peak_mb=max(one["memory_mb"] for one in every),
                    gpu_memory_peak_mb=max(one["gpu_memory_mb"] for one in every) if device.type == "cuda" else None,
                    last_loss=[one["loss"] for one in every])
    peer.leave()


if __name__ == "__main__":
    main()
