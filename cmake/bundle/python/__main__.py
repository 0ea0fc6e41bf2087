"""python3 -m dtrain: the program, where the folder of dtrain itself is not on PATH."""
import sys

import dtrain

sys.path.pop(0)  # the working directory, in which a folder torch would be no LibTorch
dtrain.program()
