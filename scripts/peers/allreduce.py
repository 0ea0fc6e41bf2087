#!/usr/bin/env python3
"""Time of gloo's float32 all-reduce (sum) by size.

  OMP_NUM_THREADS=1 torchrun --standalone --nproc-per-node 2 scripts/peers/allreduce.py --bytes 4,1000000,28000000

Calls follow each other without a barrier, as in training: an all-reduce waits for every rank anyway. Each sum is checked
once before it is timed. Rank 0 prints one JSON line; scripts/peers/README.md defines its figures.
"""
import argparse
import sys
import time

import torch
import torch.distributed as dist

import peer
import standard

SMALL = 4096  # bytes: up to here a call takes microseconds, and many are needed


def sizes(text):
    return [max(4, int(word)) for word in text.split(",")]


def time_of(size, repeat, warmup, rank, ranks):
    buffer = torch.full((size // 4,), float(rank + 1))
    dist.all_reduce(buffer)
    if not bool((buffer == ranks * (ranks + 1) / 2).all()):
        sys.exit(f"allreduce.py: the sum of {size} bytes is wrong")
    buffer.zero_()  # zeros stay zeros, however often they are summed
    times = []
    for call in range(warmup + repeat):
        started = time.perf_counter()
        dist.all_reduce(buffer)
        if call >= warmup:
            times.append((time.perf_counter() - started) * 1e3)
    slowest = max((peer.spread(times) for times in peer.from_all_ranks(times)), key=lambda one: one["ms_median"])
    gb_per_s = buffer.numel() * 4 / slowest["ms_median"] / 1e6
    return {"algorithm": "gloo", "bytes": buffer.numel() * 4, **slowest, "algorithm_gb_per_s": round(gb_per_s, 6),
            "bus_gb_per_s": round(gb_per_s * 2 * (ranks - 1) / ranks, 6), "repeat": repeat}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bytes", type=sizes, metavar="N,N,...", default=list(standard.ALLREDUCE_BYTES),
                        help="buffer sizes (default 4,1000000,28000000,100000000)")
    parser.add_argument("--repeat", type=int, metavar="N", help="measured calls per size (default 30; 1000 up to 4 KB)")
    parser.add_argument("--warmup", type=int, default=5, metavar="N", help="calls before them (default 5)")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="CPU threads of a rank (default 1)")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    rank, ranks = peer.join("gloo")
    rows = [time_of(size, args.repeat or (1000 if size <= SMALL else 30), args.warmup, rank, ranks) for size in args.bytes]
    if rank == 0:
        peer.report(program="allreduce", ranks=ranks, threads=args.threads, warmup=args.warmup, results=rows)
    peer.leave()


if __name__ == "__main__":
    main()
