"""A PyTorch training step on one device, driven over standard input by gpu_compare.py.

Arguments: WORKLOAD PRECISION MODE BATCH DEVICE. Modes: eager; compile, reduce-overhead and max-autotune (torch.compile); graph
(the eager step as one CUDA graph). Images are channels_last noise on the device, in 16 bits where autocast would make them so;
TF32 and cudnn.benchmark are on; the optimizer is the fused SGD. The first line of output says that it is warm; then every line
`compute N` is answered with the seconds that N steps took, `memory` with the peak of allocated bytes.
"""

import json
import sys
import time

import torch
import torch.nn.functional as F

from pytorch_worker import resnet20, resnet50

SHAPES = {"resnet50": (3, 224, 1000), "resnet20": (1, 28, 10)}
TYPES = {"fp32": None, "amp_bf16": torch.bfloat16, "amp_fp16": torch.float16}


def main():
    workload, precision, mode, batch, device = sys.argv[1:6]
    batch = int(batch)
    torch.manual_seed(1)
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    channels, side, classes = SHAPES[workload]
    model = {"resnet50": resnet50, "resnet20": resnet20}[workload]().to(device, memory_format=torch.channels_last)
    gpu = device.startswith("cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4, fused=gpu or None)
    scaler = torch.amp.GradScaler(device, enabled=precision == "amp_fp16" and gpu)
    dtype = TYPES[precision]
    images = torch.randn(batch, channels, side, side, device=device, dtype=dtype)
    images = images.contiguous(memory_format=torch.channels_last)
    labels = torch.randint(classes, (batch,), device=device)

    def forward():
        with torch.autocast(device.split(":")[0], dtype=dtype or torch.bfloat16, enabled=dtype is not None):
            return F.cross_entropy(model(images), labels)

    if mode in ("compile", "reduce-overhead", "max-autotune"):
        forward = torch.compile(forward, mode=None if mode == "compile" else mode)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = forward()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss

    def synchronize():
        if gpu:
            torch.cuda.synchronize()

    def captured(step):
        """Gradients stay in place; the scaler's test reads back, so FP16 is scaled by a constant."""
        side_stream = torch.cuda.Stream()

        def fixed():
            optimizer.zero_grad(set_to_none=False)
            (forward() * (65536.0 if precision == "amp_fp16" else 1.0)).backward()
            optimizer.step()

        with torch.cuda.stream(side_stream):
            for _ in range(11):
                fixed()
        torch.cuda.current_stream().wait_stream(side_stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            fixed()
        return graph.replay

    if mode == "graph":
        step = captured(step)
    for _ in range(30 if gpu else 2):
        step()
    synchronize()
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        words = line.split()
        if words[0] == "compute":
            synchronize()
            start = time.perf_counter()
            for _ in range(int(words[1])):
                step()
            synchronize()
            print(json.dumps({"seconds": time.perf_counter() - start}), flush=True)
        elif words[0] == "memory":
            print(json.dumps({"peak_memory_bytes": torch.cuda.max_memory_allocated() if gpu else 0}), flush=True)


main()
