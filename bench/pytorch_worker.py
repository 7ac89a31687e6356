"""A PyTorch training step, driven over standard input by compare.py.

Arguments: WORKLOAD fp32|amp_bf16 THREADS. Commands, one a line: `run N` trains N steps and answers with the seconds they
took and the last loss; `memory` answers with the peak resident bytes since PyTorch was imported; `quit` ends.
"""

import json
import sys
import time

import torch
from torch import nn
import torch.nn.functional as F


def conv(inputs, outputs, kernel, stride=1):
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)


class Residual(nn.Module):
    """`widths` and `kernels` of the convolutions in order; the stride sits in the first 3x3."""

    def __init__(self, inputs, widths, kernels, stride):
        super().__init__()
        self.convs = nn.ModuleList()
        self.norms = nn.ModuleList()
        channels, strided = inputs, False
        for width, kernel in zip(widths, kernels):
            here = stride if kernel == 3 and not strided else 1
            strided = strided or kernel == 3
            self.convs.append(conv(channels, width, kernel, here))
            self.norms.append(nn.BatchNorm2d(width))
            channels = width
        self.downsample = None
        if stride != 1 or inputs != channels:
            self.downsample = nn.Sequential(conv(inputs, channels, 1, stride), nn.BatchNorm2d(channels))

    def forward(self, x):
        y = x
        last = len(self.convs) - 1
        for i, (c, norm) in enumerate(zip(self.convs, self.norms)):
            y = norm(c(y))
            if i < last:
                y = F.relu(y, inplace=True)
        return F.relu(y + (x if self.downsample is None else self.downsample(x)), inplace=True)


def resnet50():
    layers = [conv(3, 64, 7, 2), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for stage, (blocks, width) in enumerate(zip((3, 4, 6, 3), (64, 128, 256, 512))):
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            layers.append(Residual(channels, (width, width, 4 * width), (1, 3, 1), stride))
            channels = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))


def resnet20():
    layers = [conv(1, 16, 3), nn.BatchNorm2d(16), nn.ReLU(inplace=True)]
    channels = 16
    for stage, width in enumerate((16, 32, 64)):
        for block in range(3):
            stride = 2 if stage > 0 and block == 0 else 1
            layers.append(Residual(channels, (width, width), (3, 3), stride))
            channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10))


WORKLOADS = {
    "resnet50": (resnet50, (16, 3, 224, 224), 1000),
    "resnet20": (resnet20, (128, 1, 28, 28), 10),
}


def reset_peak():
    with open("/proc/self/clear_refs", "w") as f:
        f.write("5")


def resident(field):
    with open("/proc/self/status") as f:
        for line in f:
            if line.startswith(field):
                return int(line.split()[1]) * 1024
    raise RuntimeError(field)


def main():
    name, precision, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
    if precision not in ("fp32", "amp_bf16"):
        sys.exit(f"pytorch_worker: no precision {precision} on the CPU; fp32 or amp_bf16")
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    baseline = resident("VmRSS")
    reset_peak()
    make, shape, classes = WORKLOADS[name]
    model = make().to(memory_format=torch.channels_last)
    images = torch.randn(shape).contiguous(memory_format=torch.channels_last)
    labels = torch.randint(0, classes, (shape[0],))
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9, weight_decay=1e-4, fused=True)

    def step():
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "amp_bf16"):
            loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss

    print(json.dumps({"ready": True, "version": torch.__version__, "items": shape[0]}), flush=True)
    for line in sys.stdin:
        command = line.split()
        if command[0] == "run":
            start = time.perf_counter()
            for _ in range(int(command[1])):
                loss = step()
            seconds = time.perf_counter() - start
            print(json.dumps({"seconds": seconds, "loss": loss.item()}), flush=True)
        elif command[0] == "memory":
            print(json.dumps({"peak": resident("VmHWM") - baseline}), flush=True)
        else:
            return


if __name__ == "__main__":
    main()
