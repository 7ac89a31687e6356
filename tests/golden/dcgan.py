"""Golden run of a DCGAN: tests/golden/dcgan.safetensors.

    python dcgan.py           # needs torch and safetensors; writes the file beside itself

Ten iterations of PyTorch's example (examples/dcgan), images of 32×32: Adam for either network, one shared loss scale, the
generator called once an iteration. Weights and images come from the hash of resnet.py, z from the same Philox numbers
and the same transformation as Tandem's random_normal; tests/golden/dcgan_test.cpp computes them too. Two things differ
from the example: there is no sigmoid (the loss takes logits), and the generator's pass through the discriminator does
not write its running statistics. FP64 is the exact run; f32 is plain; bf16 and f16 are torch.autocast on the CPU, f16
with a fixed loss scale. The metadata give the deviation of PyTorch's runs from FP64, a lower bound for tolerances.
"""
import pathlib

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import save_file

from resnet import chosen, deviation, initial, signed_unit

HERE = pathlib.Path(__file__).parent
STEPS, BATCH, SIDE, NOISE, WIDTH, SEED = 10, 16, 32, 100, 8, 5
LOSS_SCALE = 1024.0  # of f16


def philox_normal(seed, step, count):
    """Philox4x32-10, and Box and Muller in FP64; rounded to float32."""
    u32, mask = np.uint64, np.uint64(0xFFFFFFFF)
    shift = np.uint64(32)
    key = [seed & 0xFFFFFFFF, seed >> 32]
    c = [np.arange((count + 3) // 4, dtype=u32), u32(0), u32(step), u32(0)]
    for _ in range(10):
        p0, p2 = u32(0xD2511F53) * c[0], u32(0xCD9E8D57) * c[2]
        c = [(p2 >> shift) ^ c[1] ^ u32(key[0]), p2 & mask, (p0 >> shift) ^ c[3] ^ u32(key[1]), p0 & mask]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    words = np.stack(np.broadcast_arrays(*c), 1).astype(np.float64)
    u, v = (words[:, 0::2] + 0.5) * 2.0**-32, (words[:, 1::2] + 0.5) * 2.0**-32
    radius, angle = np.sqrt(-2 * np.log(u)), 2 * np.pi * v
    normal = np.stack([radius * np.cos(angle), radius * np.sin(angle)], 2)
    return normal.reshape(-1)[:count].astype(np.float32)


def generator():
    f = WIDTH
    return nn.Sequential(
        nn.ConvTranspose2d(NOISE, 4 * f, 4, 1, 0, bias=False), nn.BatchNorm2d(4 * f), nn.ReLU(True),
        nn.ConvTranspose2d(4 * f, 2 * f, 4, 2, 1, bias=False), nn.BatchNorm2d(2 * f), nn.ReLU(True),
        nn.ConvTranspose2d(2 * f, f, 4, 2, 1, bias=False), nn.BatchNorm2d(f), nn.ReLU(True),
        nn.ConvTranspose2d(f, 1, 4, 2, 1, bias=False), nn.Tanh())


def discriminator():
    f = WIDTH
    return nn.Sequential(
        nn.Conv2d(1, f, 4, 2, 1, bias=False), nn.LeakyReLU(0.2),
        nn.Conv2d(f, 2 * f, 4, 2, 1, bias=False), nn.BatchNorm2d(2 * f), nn.LeakyReLU(0.2),
        nn.Conv2d(2 * f, 4 * f, 4, 2, 1, bias=False), nn.BatchNorm2d(4 * f), nn.LeakyReLU(0.2),
        nn.Conv2d(4 * f, 1, 4, 1, 0, bias=False), nn.Flatten())


class Dcgan(nn.Module):
    def __init__(self):
        super().__init__()
        self.generator, self.discriminator = nn.Module(), nn.Module()
        self.generator.main, self.discriminator.main = generator(), discriminator()


def images(step):
    """[BATCH,1,SIDE,SIDE]: half one of four patterns, half noise. Hashed channels last, as they lie in Tandem's memory."""
    patterns = signed_unit("patterns", 4 * SIDE**2).reshape(4, SIDE**2)
    noise = signed_unit(f"images{step}", BATCH * SIDE**2).reshape(BATCH, SIDE**2)
    x = np.float32(0.5) * patterns[np.arange(BATCH) % 4] + np.float32(0.5) * noise
    return torch.from_numpy(x).reshape(BATCH, 1, SIDE, SIDE)


def keep_statistics(network, on):
    """A momentum of 0 leaves running statistics as they are."""
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = 0.0 if on else 0.1


def train(dtype):
    lowered = dtype in (torch.bfloat16, torch.float16)
    model = Dcgan().to(torch.float32 if lowered else dtype)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.from_numpy(initial(name, tuple(parameter.shape))))
    start = {name: p.detach().double().clone() for name, p in model.named_parameters()}
    G, D = model.generator.main, model.discriminator.main
    learn_d = torch.optim.Adam(D.parameters(), 2e-4, (0.5, 0.999))
    learn_g = torch.optim.Adam(G.parameters(), 2e-4, (0.5, 0.999))
    scale = LOSS_SCALE if dtype == torch.float16 else 1.0
    values, losses = {}, []

    def bce(scores, target):
        scores = scores if dtype == torch.float64 else scores.float()
        return F.binary_cross_entropy_with_logits(scores, torch.full_like(scores, target))

    def finish(network, loss, learn, step):
        learn.zero_grad()
        (loss * scale).backward()
        for name, parameter in model.named_parameters():
            if not name.startswith(network):
                continue
            parameter.grad /= scale
            if step == 0:
                gradient = parameter.grad.detach().double().flatten()
                values["gradient_norm/" + name] = gradient.norm()
                values["gradient/" + name] = gradient[chosen(name, gradient.numel())].clone()
        learn.step()

    for step in range(STEPS):
        x = images(step)
        z = torch.from_numpy(philox_normal(SEED, step, BATCH * NOISE)).reshape(BATCH, NOISE, 1, 1)
        if not lowered:
            x, z = x.to(dtype), z.to(dtype)
        with torch.autocast("cpu", dtype, enabled=lowered):
            made = G(z)
            real, fake = D(x), D(made.detach())
        assert not lowered or real.dtype == made.dtype == dtype
        of_real, of_made = bce(real, 1.0), bce(fake, 0.0)
        finish("discriminator", of_real + of_made, learn_d, step)
        keep_statistics(D, True)
        with torch.autocast("cpu", dtype, enabled=lowered):
            of_generator = bce(D(made), 1.0)
        keep_statistics(D, False)
        finish("generator", of_generator, learn_g, step)
        losses.append([of_real.item(), of_made.item(), of_generator.item()])
    values["losses"] = torch.tensor(losses, dtype=torch.float64)
    for name, parameter in model.named_parameters():
        moved = (parameter.detach().double() - start[name]).flatten()
        values["update/" + name] = moved[chosen(name, moved.numel())].clone()
    for name, buffer in model.named_buffers():
        if buffer.dtype.is_floating_point:
            values["statistic/" + name] = buffer.detach().double().clone()
    return values


def main():
    torch.set_num_threads(1)
    runs = {"f64": torch.float64, "f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
    runs = {name: train(dtype) for name, dtype in runs.items()}
    exact = runs["f64"]
    stored = {key: value for key, value in exact.items() if key != "losses"}
    metadata = {"torch": torch.__version__}
    for name, run in runs.items():
        stored["losses " + name] = run["losses"]
        if name == "f64":
            continue
        off = (run["losses"] - exact["losses"]).abs() / exact["losses"]
        metadata[name + " deviation of losses"] = f"{off.max():.1e} at most, {off[0].max():.1e} in the first iteration"
        for kind in ("gradient/", "update/", "statistic/"):
            worst = {k: deviation(run[k], exact[k]) for k in exact if k.startswith(kind)}
            key = max(worst, key=worst.get)
            metadata[f"{name} deviation of {kind[:-1]}s"] = f"{worst[key]:.1e} ({key})"
    for item in metadata.items():
        print(*item)
    print(exact["losses"])
    save_file(stored, HERE / "dcgan.safetensors", metadata=metadata)


if __name__ == "__main__":
    main()
