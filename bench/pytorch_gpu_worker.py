"""A PyTorch training step on one device, driven over standard input by tests/gpu/visit.

Arguments: WORKLOAD PRECISION MODE DEVICE [tiny]. Workloads are those of gpu_workloads.py. Modes: eager; compile, reduce-overhead
and max-autotune (torch.compile); graph (the eager step as one CUDA graph); the last four for image classifiers only. Images are
channels_last noise on the device, in 16 bits if autocast casts them; TF32 and cudnn.benchmark are on; optimizers are fused.
TANDEM_TORCH_CACHE names a file of earlier torch.compile artifacts, of the same PyTorch and GPU.

The first line of output reports that the step is ready; nothing of it has run. Then one line answers each of
    compute N         seconds of N steps; the first call is the warm-up
    memory            peak of allocated bytes
    profile           kernels of a step, longest first (microseconds)
    artifacts FILE    writes the artifacts of torch.compile
"""

import functools
import json
import os
import pathlib
import sys
import time

import torch
import torch.nn.functional as F

from gpu_workloads import WORKLOADS
from pytorch_translation import translation
from pytorch_worker import language, resnet20, resnet50

IMAGES = {"resnet50": (resnet50, 3, 224, 1000), "resnet20": (resnet20, 1, 28, 10)}
TYPES = {"fp32": None, "amp_bf16": torch.bfloat16, "amp_fp16": torch.float16}


def classifier(precision, mode, device, network, batch, side=None):
    make, channels, own_side, classes = IMAGES[network]
    side, gpu, dtype = side or own_side, device.startswith("cuda"), TYPES[precision]
    model = make().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4, fused=True)
    scaler = torch.amp.GradScaler(device, enabled=precision == "amp_fp16" and gpu)
    images = torch.randn(batch, channels, side, side, dtype=dtype).contiguous(memory_format=torch.channels_last)
    labels = torch.randint(classes, (batch,))

    def forward():
        with torch.autocast(device.split(":")[0], dtype=dtype or torch.bfloat16, enabled=dtype is not None):
            return F.cross_entropy(model(images), labels)

    if mode in ("compile", "reduce-overhead", "max-autotune"):
        forward = torch.compile(forward, mode=None if mode == "compile" else mode)

    def step():
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(forward()).backward()
        scaler.step(optimizer)
        scaler.update()

    def captured():
        """Gradients stay in place. FP16 uses a constant scale, because GradScaler reads back to the host."""
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

    return (captured if mode == "graph" else lambda: step), batch


def others(workload, precision, mode, device, sizes):
    """The steps of bench/pytorch_worker.py and its neighbours, on the default device."""
    if mode != "eager" or precision == "amp_fp16":
        sys.exit(f"pytorch_gpu_worker: {workload} has the mode eager, in fp32 and amp_bf16; got {mode}, {precision}")
    autocast = functools.partial(torch.autocast, device.split(":")[0], torch.bfloat16, enabled=precision == "amp_bf16")
    plain = lambda model, optimizer: (model, optimizer)
    if workload.startswith("language"):
        step, items = language(autocast, plain, **sizes)
    elif workload == "translation":
        step, items = translation(autocast, plain, **sizes)
    else:
        from pytorch_detection import detection  # needs torchvision

        step, items = detection(sizes["network"], autocast, plain, sizes["batch"], sizes["objects"])
    return (lambda: step), items


def kernels_of(step, gpu):
    activity = torch.profiler.ProfilerActivity
    with torch.profiler.profile(activities=[activity.CUDA if gpu else activity.CPU]) as profile:
        step()
        if gpu:
            torch.cuda.synchronize()
    time_of = lambda event: event.self_device_time_total if gpu else event.self_cpu_time_total
    events = sorted(profile.key_averages(), key=time_of, reverse=True)
    return [{"name": event.key[:200], "calls": event.count, "us": round(time_of(event), 1)} for event in events[:60]]


def main():
    workload, precision, mode, device = sys.argv[1:5]
    sizes = WORKLOADS[workload].tiny_peer if sys.argv[5:] == ["tiny"] else WORKLOADS[workload].peer
    cache = os.environ.get("TANDEM_TORCH_CACHE")
    if mode not in ("eager", "graph") and cache and pathlib.Path(cache).exists():
        torch.compiler.load_cache_artifacts(pathlib.Path(cache).read_bytes())
    torch.manual_seed(1)
    torch.set_default_device(device)
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    gpu = device.startswith("cuda")
    if sizes.get("network") in IMAGES:
        prepare, items = classifier(precision, mode, device, **sizes)
    else:
        prepare, items = others(workload, precision, mode, device, sizes)
    synchronize = torch.cuda.synchronize if gpu else lambda: None
    step = None

    def answer(**fields):
        print(json.dumps(fields), flush=True)

    answer(ready=True, version=torch.__version__, items=items)
    for line in sys.stdin:
        words = line.split()
        step = step or prepare()
        if words[0] == "compute":
            synchronize()
            start = time.perf_counter()
            for _ in range(int(words[1])):
                step()
            synchronize()
            answer(seconds=time.perf_counter() - start, items=items * int(words[1]))
        elif words[0] == "memory":
            answer(peak_memory_bytes=torch.cuda.max_memory_allocated() if gpu else 0)
        elif words[0] == "profile":
            answer(kernels=kernels_of(step, gpu))
        elif words[0] == "artifacts":
            artifacts = torch.compiler.save_cache_artifacts()
            if artifacts:
                pathlib.Path(words[1]).write_bytes(artifacts[0])
            answer(bytes=len(artifacts[0]) if artifacts else 0)


main()
