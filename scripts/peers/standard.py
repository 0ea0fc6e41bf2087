"""The standard settings of a comparison: the peers' defaults, and what scripts/bench_peers asks of dtrain.

Free of PyTorch, so that it can be read where there is none.
"""
import dataclasses

LEARNING_RATE = 0.01
MOMENTUM = 0.9
INPUT_SIZE = 224  # height and width in pixels of a network's input
INPUT_BATCH = 32
PREDICT_BATCH = 8
ALLREDUCE_BYTES = (4, 1_000_000, 28_000_000, 100_000_000)  # 28 MB: about the gradients of DenseNet-121


@dataclasses.dataclass(frozen=True)
class Job:
    task: str  # dtrain's word for it; it decides the loss on both sides
    batch: int  # images per rank and step
    height: int
    width: int
    channels: int
    outputs: int
    steps: int  # measured ones: about ten seconds on two cores


JOBS = {
    "densenet121": Job("multilabel", 8, 224, 224, 3, 14, 6),
    "resnet50": Job("multilabel", 8, 224, 224, 3, 14, 6),
    "unet": Job("segmentation", 2, 384, 512, 1, 1, 12),
    "small_cnn": Job("multiclass", 64, 64, 64, 3, 2, 30),
}
FIRST_STEP = dataclasses.replace(JOBS["small_cnn"], batch=8, steps=1)
