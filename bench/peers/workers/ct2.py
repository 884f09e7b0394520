#!/usr/bin/env python3
"""One measurement of CTranslate2, in tokens/s:
    ct2.py FOLDER TYPE THREADS prefill|decode N BATCH REPEAT

Prefill: one token after N prompt tokens; decode: N tokens after one. Prints {"samples": [...]}.
"""
import json
import sys
import time

import ctranslate2


def main():
    folder, compute_type, threads, kind, n, batch, repeat = sys.argv[1:]
    n, batch = int(n), int(batch)
    model = ctranslate2.Generator(folder, device="cpu", compute_type=compute_type,
                                  inter_threads=1, intra_threads=int(threads))
    vocabulary = json.load(open(folder + "/vocabulary.json", encoding="utf-8"))
    words = [[vocabulary[(7919 * (i + 1) + 104729 * j) % 50000] for i in range(n)]
             for j in range(batch)]
    prompts, new = (words, 1) if kind == "prefill" else ([w[:1] for w in words], n)
    samples = []
    for _ in range(int(repeat) + 1):
        begin = time.perf_counter()
        model.generate_batch(prompts, min_length=new, max_length=new, beam_size=1, sampling_topk=1,
                             include_prompt_in_result=False, end_token=[], max_batch_size=0)
        samples.append(n * batch / (time.perf_counter() - begin))
    print(json.dumps({"samples": samples[1:]}))  # the first is the warm-up


if __name__ == "__main__":
    main()
