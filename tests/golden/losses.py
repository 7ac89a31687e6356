"""Values of every loss, and of its gradients, from PyTorch in f64.

python losses.py > losses.h   (PyTorch 2.11; the committed losses.h was made so)
"""
import math

import torch
import torch.nn.functional as F

LOGITS = [[1.5, -0.25, 0.75, 2.0, -1.0], [0.1, 0.2, -0.3, 0.4, 0.5], [-2.0, 3.0, 1.0, 0.0, -0.5], [30.0, -30.0, 2.5, 0.5, 1.25]]
TARGET = [3, 0, 1, 2]
WEIGHTS = [0.5, 2.0, 1.25, 0.75, 1.5]
SOFT = [[0.1, 0.2, 0.3, 0.25, 0.15], [0.0, 1.0, 0.0, 0.0, 0.0], [0.5, 0.0, 0.0, 0.5, 0.0], [0.2, 0.2, 0.2, 0.2, 0.2]]
X = [[0.5, -1.25, 3.0, 0.0], [0.75, 20.0, -20.0, -0.1], [1.0, -0.4, 2.25, -3.5]]
Y = [[0.25, -1.0, 1.0, 0.5], [0.75, 19.5, -18.0, 0.1], [-1.0, 0.35, 2.0, 0.0]]
UNIT = [[0.0, 1.0, 0.25, 0.9], [1.0, 0.0, 0.5, 1.0], [0.3, 0.6, 0.0, 1.0]]  # targets in [0,1]
PROBABILITY = [[0.1, 0.9, 0.25, 0.984375], [0.0, 1.0, 0.5, 0.015625], [0.35, 0.62, 0.8, 1.0]]


def tensor(values):
    return torch.tensor(values, dtype=torch.float64)


def focal(x, t, alpha, gamma):  # Lin et al. 2017, as torchvision writes it
    p = torch.sigmoid(x)
    ce = F.binary_cross_entropy_with_logits(x, t, reduction="none")
    loss = ce * (1 - (p * t + (1 - p) * (1 - t))) ** gamma
    return loss if alpha < 0 else loss * (alpha * t + (1 - alpha) * (1 - t))


def reduce(loss, how):
    return {"none": loss, "sum": loss.sum(), "mean": loss.mean()}[how]


def cases():
    target, weights = torch.tensor(TARGET), tensor(WEIGHTS)
    options = {
        "plain": {},
        "weights": {"weight": weights},
        "smoothing": {"label_smoothing": 0.1},
        "ignore": {"ignore_index": 1},
        "everything": {"weight": weights, "label_smoothing": 0.2, "ignore_index": 0},
    }
    for how in ("none", "mean", "sum"):
        for name, option in options.items():
            yield f"cross_entropy {name} {how}", LOGITS, None, lambda x, _: F.cross_entropy(x, target, reduction=how, **option)
        for name in ("plain", "weights", "ignore"):
            yield f"nll_loss {name} {how}", LOGITS, None, lambda x, _: F.nll_loss(x, target, reduction=how, **options[name])
        for name in ("plain", "weights", "smoothing"):
            yield f"soft_cross_entropy {name} {how}", LOGITS, SOFT, lambda x, t: F.cross_entropy(x, t, reduction=how, **options[name])
        yield f"mse_loss {how}", X, Y, lambda x, t: F.mse_loss(x, t, reduction=how)
        yield f"l1_loss {how}", X, Y, lambda x, t: F.l1_loss(x, t, reduction=how)
        for beta in (1.0, 0.4, 0.0):
            yield f"smooth_l1_loss {beta} {how}", X, Y, lambda x, t: F.smooth_l1_loss(x, t, reduction=how, beta=beta)
        for delta in (1.0, 0.3):
            yield f"huber_loss {delta} {how}", X, Y, lambda x, t: F.huber_loss(x, t, reduction=how, delta=delta)
        yield f"bce_with_logits {how}", X, UNIT, lambda x, t: F.binary_cross_entropy_with_logits(x, t, reduction=how)
        yield f"bce_loss {how}", PROBABILITY, UNIT, lambda x, t: F.binary_cross_entropy(x, t, reduction=how)
        for alpha, gamma in ((0.25, 2.0), (-1.0, 1.5), (0.75, 0.0)):
            yield f"focal_loss {alpha} {gamma} {how}", X, UNIT, lambda x, t: reduce(focal(x, t, alpha, gamma), how)
        # The gradient for a target of exactly 0 is infinite; SOFT's zeros are tested for the value alone.
        yield f"kl_div {how}", LOGITS, SOFT, lambda x, t: F.kl_div(x, t, reduction=how)


def numbers(values):
    def text(v):
        return "kNan" if math.isnan(v) else "kInf" if v == math.inf else "-kInf" if v == -math.inf else f"{v:.12g}"

    return "{" + ", ".join(text(v) for v in values) + "}"


def flat(t):
    return [] if t is None else t.detach().reshape(-1).tolist()


def main():
    print("// Made by losses.py; see there. Output element i has the gradient (i+1)/10.")
    print("// clang-format off")
    print("#pragma once\n\n#include <limits>\n#include <string>\n#include <vector>\n\nnamespace golden {\n")
    print("inline constexpr double kInf = std::numeric_limits<double>::infinity();")
    print("inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();\n")
    for name in ("LOGITS", "TARGET", "WEIGHTS", "SOFT", "X", "Y", "UNIT", "PROBABILITY"):
        kind = "long" if name == "TARGET" else "double"
        print(f"inline const std::vector<{kind}> k{name.title()} = {numbers(tensor(globals()[name]).reshape(-1).tolist())};")
    print("\nstruct Loss {\n  std::string name;\n  std::vector<double> loss, dx, dtarget;\n};\n")
    print("inline const std::vector<Loss> kLosses = {")
    for name, x, t, function in cases():
        x = tensor(x).requires_grad_()
        t = None if t is None else tensor(t).requires_grad_("bce_loss" not in name)
        loss = function(x, t)
        loss.backward(0.1 * torch.arange(1, loss.numel() + 1, dtype=torch.float64).reshape(loss.shape))
        # The target's gradient is compared where PyTorch has one and it is finite.
        dt = None if t is None or t.grad is None or not torch.isfinite(t.grad).all() else t.grad
        print(f'    {{"{name}", {numbers(flat(loss))}, {numbers(flat(x.grad))}, {numbers(flat(dt))}}},')
    print("};\n\n}  // namespace golden")


if __name__ == "__main__":
    main()
