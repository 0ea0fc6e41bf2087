#!/usr/bin/env python3
"""What onnxruntime says of pictures, for tests of dtrain export.

    onnx_scores.py < JOBS
        JOBS is JSON: for each file's path a list of pictures [C][H][W]. Prints JSON: for each file its scores, those of
        the first picture alone, and the metadata. Checks each file with onnx.checker where that is installed.
    onnx_scores.py --check
        Exit status 0 when everything needed can be imported.
"""
import json
import sys

import numpy
import onnxruntime

try:
    import onnx
except ImportError:
    onnx = None


def scores_of(path, pictures):
    if onnx:
        onnx.checker.check_model(path, full_check=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    pixels = numpy.asarray(pictures, numpy.float32)
    both, = session.run(["scores"], {"pictures": pixels})
    alone, = session.run(["scores"], {"pictures": pixels[:1]})
    return {"scores": both.tolist(), "alone": alone.tolist(), "metadata": session.get_modelmeta().custom_metadata_map}


if sys.argv[1:] != ["--check"]:
    print(json.dumps({path: scores_of(path, pictures) for path, pictures in json.load(sys.stdin).items()}))
