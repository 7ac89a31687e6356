"""Golden losses of 200 steps in FP32 and in mixed precision: tests/golden/precision.safetensors.

    python precision.py       # needs torch 2.11 and safetensors; writes the file beside itself

LeNet-5 and ResNet-8 learn to tell ten patterns apart in noise: weights, patterns, noise and labels come from the hash of
resnet.py, which tests/golden/precision_test.cpp computes too. FP64 is the exact run; FP32 is plain; bf16 and f16 are
torch.autocast on the CPU, f16 with a fixed loss scale. The metadata give the deviation of PyTorch's runs from FP64,
a lower bound for tolerances: rounding differences grow with every update, so the learning rates are small.
"""
import pathlib

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import save_file

from resnet import ResNet, hashed, initialised, signed_unit

HERE = pathlib.Path(__file__).parent
STEPS, BATCHES, BATCH, EXTENT = 200, 8, 16, 16
MOMENTUM, DECAY = 0.9, 1e-4
LOSS_SCALE = 1024.0  # of f16


class LeNet(nn.Module):
    """The original: tanh and average pooling have no kinks that a rounding could cross."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(64, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, x):
        x = F.avg_pool2d(torch.tanh(self.conv1(x)), 2)
        x = F.avg_pool2d(torch.tanh(self.conv2(x)), 2)
        x = torch.tanh(self.fc1(x.flatten(1)))
        return self.fc3(torch.tanh(self.fc2(x)))


def batches():
    """Images [BATCH,1,EXTENT,EXTENT], half the pattern of their class and half noise, and labels."""
    patterns = signed_unit("patterns", 10 * EXTENT**2).reshape(10, EXTENT**2)
    result = []
    for b in range(BATCHES):
        labels = (hashed(f"labels{b}", BATCH) % np.uint32(10)).astype(np.int64)
        noise = signed_unit(f"noise{b}", BATCH * EXTENT**2).reshape(BATCH, EXTENT**2)
        images = np.float32(0.5) * patterns[labels] + np.float32(0.5) * noise
        result.append((torch.from_numpy(images).reshape(BATCH, 1, EXTENT, EXTENT), torch.from_numpy(labels)))
    return result


def train(make, lr, dtype):
    """The losses before each step; `dtype` of the ops that autocast lowers, or of everything (f64, f32)."""
    lowered = dtype in (torch.bfloat16, torch.float16)
    model = initialised(make, torch.float32 if lowered else dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr, momentum=MOMENTUM, weight_decay=DECAY)
    scale = LOSS_SCALE if dtype == torch.float16 else 1.0
    data, losses = batches(), []
    for step in range(STEPS):
        x, labels = data[step % BATCHES]
        with torch.autocast("cpu", dtype, enabled=lowered):
            logits = model(x if lowered else x.to(dtype))
            assert not lowered or logits.dtype == dtype
        loss = F.cross_entropy(logits if dtype == torch.float64 else logits.float(), labels)
        optimizer.zero_grad()
        (loss * scale).backward()
        for parameter in model.parameters():
            parameter.grad /= scale
        optimizer.step()
        losses.append(loss.item())
    return torch.tensor(losses, dtype=torch.float64)


def main():
    torch.set_num_threads(1)
    cases = {"lenet5": (LeNet, 0.001), "resnet8": (lambda: ResNet(1, 16, [1, 1, 1], False, False), 0.0005)}
    types = {"f64": torch.float64, "f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
    values, metadata = {}, {"torch": torch.__version__}
    for name, (make, lr) in cases.items():
        metadata[f"{name} lr"] = str(lr)
        for suffix, dtype in types.items():
            losses = values[f"{name} {suffix}"] = train(make, lr, dtype)
            off = (losses - values[f"{name} f64"]).abs() / values[f"{name} f64"]
            metadata[f"{name} {suffix} deviation"] = f"{off.max():.1e} at most, {off[:10].max():.1e} in ten steps"
        exact = values[f"{name} f64"]
        metadata[f"{name} loss"] = f"{exact[0]:.3f} to {exact[-BATCHES:].mean():.3f}"
    for item in metadata.items():
        print(*item)
    save_file(values, HERE / "precision.safetensors", metadata=metadata)


if __name__ == "__main__":
    main()
