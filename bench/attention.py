#!/usr/bin/env python3
"""Attention forward and backward against PyTorch's scaled_dot_product_attention, in turns on the same cores.

    bench/attention.py [--worker build/release/bench_attention] [--threads 1] [--rounds 5]

Needs PyTorch. Of each round the least processor time of several calls counts; the table has the median of the rounds' ratios
(PyTorch / Tandem) and their range.
"""

import argparse
import statistics
import subprocess
import time

import torch

SHAPES = [(4, 12, 1024, 64), (8, 6, 256, 64), (16, 4, 128, 64), (12, 4, 64, 32)]


def pytorch(texts, heads, tokens, width, dtype, causal, calls):
    inputs = [torch.randn(texts, tokens, heads, width).to(dtype).transpose(1, 2).requires_grad_() for _ in range(3)]
    gradient = torch.randn(texts, heads, tokens, width).to(dtype)
    forward = both = float("inf")
    for _ in range(calls):
        begun = time.process_time()
        y = torch.nn.functional.scaled_dot_product_attention(*inputs, is_causal=causal)
        between = time.process_time()
        torch.autograd.grad(y, inputs, gradient)
        forward, both = min(forward, between - begun), min(both, time.process_time() - begun)
    return forward * 1e3, both * 1e3


def tandem(worker, threads, texts, heads, tokens, width, dtype, causal, calls):
    command = [worker, "--texts", texts, "--heads", heads, "--tokens", tokens, "--width", width, "--dtype", dtype,
               "--threads", threads, "--rounds", calls] + (["--causal"] if causal else [])
    output = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True).stdout
    return tuple(float(word) for word in output.split())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--worker", default="build/release/bench_attention")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"PyTorch {torch.__version__}, {options.threads} thread(s); ms, and PyTorch / Tandem\n")
    print("| texts, heads, tokens, width | causal | type | Tandem forward, both | ratio forward | ratio both |")
    print("| --- | --- | --- | ---: | ---: | ---: |")
    for shape in SHAPES:
        calls = 3 if shape[2] > 512 else 15
        for causal in (False, True):
            for name, dtype in (("f32", torch.float32), ("bf16", torch.bfloat16)):
                ours, ratios = [], ([], [])
                for _ in range(options.rounds):
                    ours.append(tandem(options.worker, options.threads, *shape, name, causal, calls))
                    theirs = pytorch(*shape, dtype, causal, calls)
                    for kept, a, b in zip(ratios, theirs, ours[-1]):
                        kept.append(a / b)
                best = [min(each[i] for each in ours) for i in (0, 1)]
                cells = [f"{statistics.median(r):.2f} ({min(r):.2f}–{max(r):.2f})" for r in ratios]
                print(f"| {', '.join(map(str, shape))} | {'yes' if causal else 'no'} | {name} | "
                      f"{best[0]:.2f}, {best[1]:.2f} | {cells[0]} | {cells[1]} |", flush=True)


if __name__ == "__main__":
    main()
