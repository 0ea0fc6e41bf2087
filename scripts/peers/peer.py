"""What the peer programs share: joining the other ranks and leaving them, and one JSON line as the last word."""
import json
import os
import platform
import sys

import torch
import torch.distributed as dist


def join(backend):
    """(rank, ranks) under torchrun; a program started without it is a group of one."""
    if "RANK" in os.environ:
        dist.init_process_group(backend)
    else:
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    return dist.get_rank(), dist.get_world_size()


def leave():
    """Ends this process. Not by returning from main: gloo's threads can abort an interpreter that is being torn down."""
    dist.barrier()
    sys.stdout.flush()
    os._exit(0)


def from_all_ranks(value):
    """What each rank gave, by rank."""
    every = [None] * dist.get_world_size()
    dist.all_gather_object(every, value)
    return every


def spread(milliseconds):
    """Median, smallest and 95th percentile (nearest rank) of times."""
    ordered, count = sorted(milliseconds), len(milliseconds)
    return {"ms_median": round((ordered[(count - 1) // 2] + ordered[count // 2]) / 2, 4), "ms_min": round(ordered[0], 4),
            "ms_p95": round(ordered[-(-95 * count // 100) - 1], 4)}


def versions():
    return {"torch": torch.__version__, "python": platform.python_version(),
            "cpu_capability": torch.backends.cpu.get_cpu_capability()}


def report(**facts):
    print(json.dumps({**facts, "versions": versions()}), flush=True)
