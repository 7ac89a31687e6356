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


def double_conv(inputs, outputs):
    return nn.Sequential(conv(inputs, outputs, 3), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True),
                         conv(outputs, outputs, 3), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))


class UNet(nn.Module):
    """That of milesial/Pytorch-UNet, with three levels of width 16."""

    def __init__(self, width=16, levels=3):
        super().__init__()
        widths = [width << level for level in range(levels + 1)]
        self.inc = double_conv(1, width)
        self.down = nn.ModuleList(double_conv(a, b) for a, b in zip(widths, widths[1:]))
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in zip(widths[-2::-1], widths[:0:-1]))
        self.conv = nn.ModuleList(double_conv(2 * a, a) for a in widths[-2::-1])
        self.outc = nn.Conv2d(width, 11, 1)

    def forward(self, x):
        skips = [self.inc(x)]
        for down in self.down:
            skips.append(down(F.max_pool2d(skips[-1], 2)))
        x = skips.pop()
        for up, after in zip(self.up, self.conv):
            x = after(torch.cat([skips.pop(), up(x)], 1))
        return self.outc(x)


def dice_loss(logits, masks, epsilon=1e-6):
    truth = F.one_hot(masks, logits.shape[1]).permute(0, 3, 1, 2)
    p, axes = logits.float().softmax(1), (0, 2, 3)
    return 1 - ((2 * (p * truth).sum(axes) + epsilon) / (p.sum(axes) + truth.sum(axes) + epsilon)).mean()


# The network, its images, the classes, and whether every pixel has one.
WORKLOADS = {
    "resnet50": (resnet50, (16, 3, 224, 224), 1000, False),
    "resnet20": (resnet20, (128, 1, 28, 28), 10, False),
    "unet": (UNet, (16, 1, 64, 64), 11, True),
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
    make, shape, classes, by_pixel = WORKLOADS[name]
    model = make().to(memory_format=torch.channels_last)
    images = torch.randn(shape).contiguous(memory_format=torch.channels_last)
    labels = torch.randint(0, classes, (shape[0], *shape[2:]) if by_pixel else (shape[0],))
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9, weight_decay=1e-4, fused=True)

    def step():
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "amp_bf16"):
            logits = model(images)
            loss = F.cross_entropy(logits, labels)
            if by_pixel:
                loss = loss + dice_loss(logits, labels)
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
