#!/usr/bin/env python3
"""Time from the start of the process to the end of its first training step: small_cnn, batch 8 of 64 x 64 x 3.

  OMP_NUM_THREADS=1 python scripts/peers/first_step.py
  OMP_NUM_THREADS=1 torchrun --standalone --nproc-per-node 2 scripts/peers/first_step.py

The start is read from /proc (10 ms fine) unless --since gives it: seconds of the system's monotonic clock, noted by
whoever started the process. Under torchrun the step is DistributedDataParallel's, and the slowest rank counts. Rank 0
prints one JSON line. Start a fresh process for each measurement, and leave the first one out: it warms the page cache.
"""
import time

entered = time.monotonic()

import argparse  # noqa: E402  all imports from here on are part of what is measured
import os  # noqa: E402


def process_start():
    """When the kernel made this process, on the monotonic clock."""
    with open("/proc/self/stat", encoding="ascii") as file:
        ticks = int(file.read().rpartition(")")[2].split()[19])
    alive = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    return time.monotonic() - alive


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--since", type=float, metavar="S", help="when the process was started")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="CPU threads of a rank (default 1)")
    args = parser.parse_args()
    started = process_start() if args.since is None else args.since

    import torch

    import models
    import peer
    import standard

    imported = time.monotonic()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    job = standard.FIRST_STEP
    shape = (job.channels, job.outputs, job.height, job.width)
    net = models.build("small_cnn", *shape).train()
    step_net = net
    alone = "RANK" not in os.environ
    rank, ranks = (0, 1) if alone else peer.join("gloo")
    if not alone:
        step_net = torch.nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.SGD(net.parameters(), standard.LEARNING_RATE, momentum=standard.MOMENTUM)
    pixels, targets = models.made_up_batch("small_cnn", job.batch, *shape, seed=1 + rank)
    loss = models.loss_of("small_cnn")(step_net(pixels), targets)
    loss.backward()
    optimizer.step()
    stepped = time.monotonic()

    marks = {"to_python_s": entered - started, "to_import_s": imported - started, "to_first_step_s": stepped - started}
    every = [marks] if alone else peer.from_all_ranks(marks)
    if rank == 0:
        slowest = {name: round(max(one[name] for one in every), 4) for name in marks}
        peer.report(program="first_step", ranks=ranks, threads=args.threads, batch=job.batch, height=job.height,
                    width=job.width, loss=round(loss.item(), 6), **slowest)
    if not alone:
        peer.leave()


if __name__ == "__main__":
    main()
