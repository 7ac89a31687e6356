"""A PyTorch training step, driven over standard input by compare.py.

Arguments: WORKLOAD fp32|amp_bf16 THREADS [compiled], the last for torch.compile. Commands, one per line: `first` trains the first step
and answers with its losses, one per network, and its seconds, which include compilation; `run N` trains N steps and answers with the
seconds and the last losses; `memory` answers with the peak of resident bytes since PyTorch was imported, of a compiled step without
the peak of the compilation; `quit` ends.
"""

import contextlib
import functools
import json
import sys
import time

import torch
from torch import nn
import torch.nn.functional as F

from pytorch_transformers import TRANSFORMERS, vit_fashion, vit_ti
from pytorch_translation import translation


def conv(inputs, outputs, kernel, stride=1):
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)


class Residual(nn.Module):
    """`widths` and `kernels` of the convolutions in order; the stride is that of the first 3x3."""

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
    """U-Net of milesial/Pytorch-UNet, with three levels of width 16."""

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


SGD = functools.partial(torch.optim.SGD, lr=0.01, momentum=0.9, weight_decay=1e-4, fused=True)
ADAMW = functools.partial(torch.optim.AdamW, lr=1e-3, weight_decay=0.05, fused=True)
# Network, images, classes, whether each pixel has a class, and the optimizer.
SUPERVISED = {
    "resnet50": (resnet50, (16, 3, 224, 224), 1000, False, SGD),
    "resnet20": (resnet20, (128, 1, 28, 28), 10, False, SGD),
    "unet": (UNet, (16, 1, 64, 64), 11, True, SGD),
    "vit_ti": (vit_ti, (8, 3, 224, 224), 1000, False, ADAMW),
    "vit_fashion": (vit_fashion, (128, 1, 28, 28), 10, False, ADAMW),
}


def supervised(make, shape, classes, by_pixel, optimizer, autocast, optimized):
    """A step and its number of images. `optimized` maps each model and optimizer to those that train."""
    model = make().to(memory_format=torch.channels_last)
    images = torch.randn(shape).contiguous(memory_format=torch.channels_last)
    labels = torch.randint(0, classes, (shape[0], *shape[2:]) if by_pixel else (shape[0],))
    model, optimizer = optimized(model, optimizer(model.parameters()))

    def step():
        with autocast():
            logits = model(images)
            loss = F.cross_entropy(logits, labels)
            if by_pixel:
                loss = loss + dice_loss(logits, labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return [loss]

    return step, shape[0]


def dcgan_networks(width=32, noise=100):
    """Generator and discriminator of PyTorch's DCGAN example for images of 32x32x1; the sigmoid is part of the loss."""
    generator = [nn.ConvTranspose2d(noise, 4 * width, 4, 1, 0, bias=False), nn.BatchNorm2d(4 * width), nn.ReLU(True)]
    discriminator = [nn.Conv2d(1, width, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True)]
    for channels in (4 * width, 2 * width):
        generator += [nn.ConvTranspose2d(channels, channels // 2, 4, 2, 1, bias=False), nn.BatchNorm2d(channels // 2),
                      nn.ReLU(True)]
    for channels in (width, 2 * width):
        discriminator += [nn.Conv2d(channels, 2 * channels, 4, 2, 1, bias=False), nn.BatchNorm2d(2 * channels),
                          nn.LeakyReLU(0.2, inplace=True)]
    generator += [nn.ConvTranspose2d(width, 1, 4, 2, 1, bias=False), nn.Tanh()]
    discriminator += [nn.Conv2d(4 * width, 1, 4, 1, 0, bias=False), nn.Flatten()]
    networks = nn.Sequential(*generator), nn.Sequential(*discriminator)
    for network in networks:
        for module in network:
            if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d, nn.BatchNorm2d)):
                nn.init.normal_(module.weight, float(isinstance(module, nn.BatchNorm2d)), 0.02)
        network.to(memory_format=torch.channels_last)
    return networks


def dcgan(autocast, optimized, batch=64, noise=100):
    """The example's iteration, which generates images once: the discriminator learns from them detached, the generator through
    its graph. Two changes make it faster: one backward for both losses of the discriminator, and no gradients of its parameters
    in the generator's phase."""
    generator, discriminator = dcgan_networks(noise=noise)
    real = (2 * torch.rand(batch, 1, 32, 32) - 1).contiguous(memory_format=torch.channels_last)
    adam = [torch.optim.Adam(network.parameters(), 2e-4, betas=(0.5, 0.999), fused=True)
            for network in (discriminator, generator)]
    discriminator, adam[0] = optimized(discriminator, adam[0])
    generator, adam[1] = optimized(generator, adam[1])

    def judged(images, label):
        logits = discriminator(images)
        return F.binary_cross_entropy_with_logits(logits, torch.full_like(logits, label))

    def learn(optimizer, loss):
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    def step():
        with autocast():
            made = generator(torch.randn(batch, noise, 1, 1))
            of_discriminator = judged(real, 1.0) + judged(made.detach(), 0.0)
        learn(adam[0], of_discriminator)
        discriminator.requires_grad_(False)
        with autocast():
            of_generator = judged(made, 1.0)
        learn(adam[1], of_generator)
        discriminator.requires_grad_(True)
        return [of_discriminator, of_generator]

    return step, batch


class LanguageModel(nn.Module):
    """Model of PyTorch's word_language_model, 2x650, tied."""

    def __init__(self, words, units, dropout):
        super().__init__()
        self.drop = nn.Dropout(dropout)
        self.encoder = nn.Embedding(words, units)
        self.rnn = nn.LSTM(units, units, 2, dropout=dropout)
        self.decoder = nn.Linear(units, words)
        self.decoder.weight = self.encoder.weight
        nn.init.uniform_(self.encoder.weight, -0.05, 0.05)

    def forward(self, x, state):
        y, state = self.rnn(self.drop(self.encoder(x)), state)
        return self.decoder(self.drop(y)), state


def language(autocast, optimized, words=10000, steps=35, streams=20, units=650):
    """The example's step; its update p -= lr·g is SGD's, fused here."""
    model = LanguageModel(words, units, 0.3)
    model, optimizer = optimized(model, torch.optim.SGD(model.parameters(), 1.0, fused=True))
    tokens, targets = (torch.randint(0, words, (steps, streams)) for _ in range(2))
    state = tuple(torch.zeros(2, streams, units) for _ in range(2))

    def step():
        nonlocal state
        state = tuple(each.detach() for each in state)
        with autocast():
            logits, state = model(tokens, state)
            loss = F.cross_entropy(logits.view(-1, words), targets.view(-1))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()
        return [loss]

    return step, steps * streams


# Workloads other than supervised ones on images.
OTHERS = {"dcgan": dcgan, "language": language, "translation": translation}


def maker_of(name):
    """The function that makes the step of a workload and its number of items; imports its dependencies."""
    if name in SUPERVISED:
        return functools.partial(supervised, *SUPERVISED[name])
    if name in OTHERS:
        return OTHERS[name]
    if name in TRANSFORMERS:
        return functools.partial(*TRANSFORMERS[name])
    from pytorch_detection import DETECTORS, detection  # needs torchvision

    if name in DETECTORS:
        return functools.partial(detection, name)
    from pytorch_parts import PARTS  # and pycocotools

    return lambda autocast, optimized: PARTS[name]()


def reset_peak():
    with open("/proc/self/clear_refs", "w") as f:
        f.write("5")


def resident(field):
    with open("/proc/self/status") as f:
        for line in f:
            if line.startswith(field):
                return int(line.split()[1]) * 1024
    raise RuntimeError(field)


def with_compiler():
    """torch.compile for a model; what it imports is not part of a step's memory."""
    import torch._inductor.compile_fx  # noqa: F401

    return lambda model, optimizer: (torch.compile(model), optimizer)


def as_given(model, optimizer):
    return model, optimizer


def main():
    name, precision, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
    variant = "".join(sys.argv[4:])
    if precision not in ("fp32", "amp_bf16"):
        sys.exit(f"pytorch_worker: no precision {precision} on the CPU; fp32 or amp_bf16")
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    amp = precision == "amp_bf16"
    optimized = with_compiler() if variant == "compiled" else as_given
    make = maker_of(name)
    parameters = 0

    def counted(model, optimizer):
        nonlocal parameters
        parameters += sum(each.numel() for each in model.parameters())
        return optimized(model, optimizer)

    baseline = resident("VmRSS")
    reset_peak()
    autocast = functools.partial(torch.autocast, "cpu", torch.bfloat16, enabled=amp)
    step, items = make(autocast, counted)
    print(json.dumps({"ready": True, "version": torch.__version__, "items": items, "parameters": parameters}), flush=True)
    for line in sys.stdin:
        command = line.split()
        if command[0] == "first":
            start = time.perf_counter()
            losses = [loss.item() for loss in step()]
            print(json.dumps({"losses": losses, "seconds": time.perf_counter() - start}), flush=True)
            if variant == "compiled":
                reset_peak()
        elif command[0] == "run":
            start = time.perf_counter()
            for _ in range(int(command[1])):
                losses = step()
            seconds = time.perf_counter() - start
            print(json.dumps({"seconds": seconds, "losses": [loss.item() for loss in losses]}), flush=True)
        elif command[0] == "memory":
            print(json.dumps({"peak": resident("VmHWM") - baseline}), flush=True)
        else:
            return


if __name__ == "__main__":
    main()
