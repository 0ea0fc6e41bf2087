"""dtrain, a program that trains image networks on any number of processes, as pip installs it.

The folder of this file is a bundle: bin/dtrain, bin/mpirun, lib, and in `share` configurations, scripts and documentation
(docs/bundle.md there). What pip puts on PATH is program() as dtrain, and mpirun() as dtrain-mpirun.
"""
import importlib.util
import os
import sys

_bundle = os.path.dirname(os.path.realpath(__file__))
share = os.path.join(_bundle, "share", "dtrain")  #: folder of configs, scripts and docs


def _become(name):
    """Replaces this process by a program of the bundle: signals and exit code are the program's."""
    # This Python's torch, which is located without being loaded. If there is none, bin/dtrain looks elsewhere, and says so.
    torch = importlib.util.find_spec("torch")
    if torch and torch.origin and not os.environ.get("DTRAIN_TORCH"):
        os.environ["DTRAIN_TORCH"] = os.path.dirname(torch.origin)
    path = os.path.join(_bundle, "bin", name)
    os.execv(path, [path, *sys.argv[1:]])


def program():
    """Starts dtrain with the words of the command line."""
    _become("dtrain")


def mpirun():
    """Starts the mpirun of dtrain's own Open MPI, which finds dtrain also where no environment is active."""
    os.environ["PATH"] = os.pathsep.join(filter(None, [os.environ.get("PATH", os.defpath), os.path.join(_bundle, "bin")]))
    _become("mpirun")
