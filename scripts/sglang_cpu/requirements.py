"""`python requirements.py torch==VERSION`: what SGLang needs on a CPU, as lines of a requirements file.

Law     what its metadata names, without torch's companions and what only a GPU runs; torch stays as it is installed.
"""

import re
import sys
from importlib.metadata import requires

GPU_ONLY = re.compile(
    r"(torch|flash|cuda|nvidia|nvshmem|sgl|tilelang|kernels|humming-kernels|quack-kernels|timm)", re.I
)

if __name__ == "__main__":
    for line in requires("sglang") or []:
        requirement, _, marker = line.partition(";")
        if "extra" not in marker and not GPU_ONLY.match(requirement):
            print(line)
    print(sys.argv[1])
