#!/usr/bin/env python3
"""The bandwidth of copying memory that is in use, in GB/s of bytes copied:
    memory_copy.py BYTES THREADS REPEAT
"""
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np


def main():
    size, threads, repeat = map(int, sys.argv[1:])
    parts = [(np.ones(size // threads, np.uint8), np.ones(size // threads, np.uint8))
             for _ in range(threads)]
    samples = []
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(repeat + 1):
            begin = time.perf_counter()
            list(pool.map(lambda pair: np.copyto(*pair), parts))  # copyto leaves the GIL
            samples.append(size / (time.perf_counter() - begin) / 1e9)
    print(json.dumps({"samples": samples[1:]}))


if __name__ == "__main__":
    main()
