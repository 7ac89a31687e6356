"""Writes tests/golden/optimizers.inc: PyTorch's optimizers over ten steps and its learning-rate schedules.

Run with PyTorch 2.9 or later: python tests/golden/optimizers.py > tests/golden/optimizers.inc

Parameters and gradients are formulas that tests/optim/golden_test.cpp repeats: element i of parameter p (weight [2,3],
or [3,2], p = 0; bias [3], p = 1) starts at sin(1.3 i + p + 0.2); its gradient in step t is (0.5 + p) cos(0.7 i + 1.1 t + p).
"""

import inspect
import math

import numpy as np
import torch
from torch.optim import _muon
from torch.optim import lr_scheduler as ls

torch.set_num_threads(1)
STEPS = 10


def values(function, count):
    return torch.tensor([function(i) for i in range(count)], dtype=torch.float64).to(torch.float32)


def run(make, sparse=False, shape=(2, 3)):
    weight = values(lambda i: math.sin(1.3 * i + 0.2), 6).reshape(shape).requires_grad_()
    bias = values(lambda i: math.sin(1.3 * i + 1.2), 3).requires_grad_()
    optimizer = make(weight, bias)
    for t in range(STEPS):
        weight.grad = values(lambda i: 0.5 * math.cos(0.7 * i + 1.1 * t), 6).reshape(shape)
        bias.grad = values(lambda i: 1.5 * math.cos(0.7 * i + 1.1 * t + 1.0), 3)
        if sparse and t % 3 != 1:
            bias.grad = None
        optimizer.step()
    return torch.cat([weight.detach().flatten(), bias.detach()]).tolist()


def both(kind, **options):
    return lambda w, b: kind([w, b], foreach=False, **options)


def grouped(kind, bias, **options):
    return lambda w, b: kind([{"params": [w]}, {"params": [b], **bias}], foreach=False, **options)


NEWTON_SCHULZ = inspect.getsource(_muon._zeropower_via_newtonschulz)
assert "torch.bfloat16" in NEWTON_SCHULZ


def muon(dtype="float32", adamw=None, **options):
    """PyTorch's Muon for the weight, its AdamW for the bias; its own products are of bfloat16."""
    exec(NEWTON_SCHULZ.replace("torch.bfloat16", f"torch.{dtype}"), _muon.__dict__)

    class Both:
        def __init__(self, weight, bias):
            adam = {"lr": options["lr"], "weight_decay": options.get("weight_decay", 0.1), **(adamw or {})}
            self.parts = [O.Muon([weight], **options), O.AdamW([bias], foreach=False, **adam)]

        def step(self):
            for part in self.parts:
                part.step()

    return Both


class Transformers:
    """Adafactor as Hugging Face's transformers define it (optimization.py, Adafactor.step), in f64."""

    def __init__(self, weight, bias, lr, beta1=None, decay_rate=-0.8, clip_threshold=1.0, scale_parameter=False):
        self.parameters, self.lr, self.beta1, self.decay_rate = [weight, bias], lr, beta1, decay_rate
        self.clip_threshold, self.scale_parameter = clip_threshold, scale_parameter
        self.values = [p.detach().numpy().astype(np.float64) for p in self.parameters]
        self.state = [{"t": 0} for _ in self.parameters]

    def step(self):
        for p, w, s in zip(self.parameters, self.values, self.state):
            g = p.grad.numpy().astype(np.float64)
            s["t"] += 1
            rms = np.sqrt(np.mean(w**2))
            lr = self.lr * (max(1e-3, rms) if self.scale_parameter else 1.0)
            beta2 = 1.0 - s["t"] ** self.decay_rate
            squares = g**2 + 1e-30
            if g.ndim > 1:
                s["row"] = beta2 * s.get("row", 0.0) + (1 - beta2) * squares.mean(-1)
                s["column"] = beta2 * s.get("column", 0.0) + (1 - beta2) * squares.mean(-2)
                u = np.outer((s["row"] / s["row"].mean()) ** -0.5, s["column"] ** -0.5) * g
            else:
                s["square"] = beta2 * s.get("square", 0.0) + (1 - beta2) * squares
                u = s["square"] ** -0.5 * g
            u = u / max(1.0, np.sqrt(np.mean(u**2)) / self.clip_threshold) * lr
            if self.beta1 is not None:
                s["mean"] = u = self.beta1 * s.get("mean", 0.0) + (1 - self.beta1) * u
            w -= u
            p.data.copy_(torch.from_numpy(w))


def transformers(**options):
    return lambda w, b: Transformers(w, b, **options)


O = torch.optim
OPTIMIZERS = {
    "sgd": run(both(O.SGD, lr=0.1)),
    "sgd_weight_decay": run(both(O.SGD, lr=0.1, weight_decay=0.05)),
    "sgd_momentum": run(both(O.SGD, lr=0.1, momentum=0.9, weight_decay=0.01)),
    "sgd_dampening": run(both(O.SGD, lr=0.1, momentum=0.9, dampening=0.3, weight_decay=0.01)),
    "sgd_dampening_sparse": run(both(O.SGD, lr=0.1, momentum=0.9, dampening=0.3), sparse=True),
    "sgd_nesterov": run(both(O.SGD, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01)),
    "sgd_groups": run(grouped(O.SGD, {"weight_decay": 0.0, "lr": 0.02}, lr=0.1, momentum=0.9, weight_decay=0.05)),
    "adam": run(both(O.Adam, lr=0.05)),
    "adam_options": run(both(O.Adam, lr=0.05, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1)),
    "adam_amsgrad": run(both(O.Adam, lr=0.05, betas=(0.8, 0.7), amsgrad=True)),
    "adam_sparse": run(both(O.Adam, lr=0.05), sparse=True),
    "adamw": run(both(O.AdamW, lr=0.05)),
    "adamw_options": run(both(O.AdamW, lr=0.05, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.3)),
    "adamw_amsgrad": run(both(O.AdamW, lr=0.05, betas=(0.8, 0.7), amsgrad=True)),
    "rmsprop": run(both(O.RMSprop, lr=0.02)),
    "rmsprop_options": run(both(O.RMSprop, lr=0.02, alpha=0.9, eps=1e-4, weight_decay=0.1)),
    "rmsprop_momentum": run(both(O.RMSprop, lr=0.02, alpha=0.9, momentum=0.8)),
    "rmsprop_centered": run(both(O.RMSprop, lr=0.02, alpha=0.9, eps=1e-2, centered=True)),
    "rmsprop_centered_momentum": run(both(O.RMSprop, lr=0.02, alpha=0.9, eps=1e-2, centered=True, momentum=0.8)),
    "adagrad": run(both(O.Adagrad, lr=0.1)),
    "adagrad_options": run(
        both(O.Adagrad, lr=0.1, lr_decay=0.05, weight_decay=0.1, initial_accumulator_value=0.3, eps=1e-3)
    ),
    "muon": run(muon(lr=0.02)),
    "muon_tall": run(muon(lr=0.02), shape=(3, 2)),
    "muon_options": run(
        muon(
            lr=0.05, weight_decay=0.3, momentum=0.8, nesterov=False, ns_steps=3, eps=2.0, adjust_lr_fn="match_rms_adamw",
            adamw={"lr": 0.01, "betas": (0.8, 0.95), "eps": 1e-3},
        ),
        shape=(3, 2),
    ),
    "muon_spectral": run(muon(lr=0.02, adjust_lr_fn="spectral_unclamped"), sparse=True),
    "muon_bf16": run(muon(dtype="bfloat16", lr=0.02)),
    "adafactor": run(both(O.Adafactor)),
    "adafactor_small_rate": run(both(O.Adafactor, lr=1e-4), shape=(3, 2)),
    "adafactor_options": run(
        both(O.Adafactor, lr=0.5, beta2_decay=-0.6, eps=(0.3, 0.9), d=1.1, weight_decay=0.1), sparse=True
    ),
    "adafactor_fixed_rate": run(transformers(lr=0.02)),
    "adafactor_momentum": run(transformers(lr=0.02, beta1=0.9, decay_rate=-0.7, clip_threshold=0.5, scale_parameter=True)),
}


def rates(make, count=30):
    optimizer = O.SGD([torch.zeros(1, requires_grad=True)], lr=0.4)
    schedule = make(optimizer)
    result = []
    for i in range(count):
        result.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if i + 1 < count:
            schedule.step()
    return result


def warm(main, steps=5, start=0.2):
    def make(o):
        first = ls.LinearLR(o, start_factor=start, total_iters=steps)
        return ls.SequentialLR(o, [first, main(o)], milestones=[steps])

    return make


SCHEDULES = {
    "constant": rates(lambda o: ls.ConstantLR(o, factor=1.0)),
    "constant_warmup": rates(lambda o: ls.LinearLR(o, start_factor=0.2, total_iters=5)),
    "step": rates(lambda o: ls.StepLR(o, 7, gamma=0.5)),
    "multi_step": rates(lambda o: ls.MultiStepLR(o, [4, 11, 20], gamma=0.1)),
    "multi_step_warmup": rates(
        lambda o: ls.ChainedScheduler(
            [ls.LinearLR(o, start_factor=0.2, total_iters=6), ls.MultiStepLR(o, [4, 11, 20], gamma=0.1)]
        )
    ),
    "exponential": rates(lambda o: ls.ExponentialLR(o, 0.9)),
    "polynomial": rates(lambda o: ls.PolynomialLR(o, total_iters=25, power=2.0)),
    "cosine": rates(lambda o: ls.CosineAnnealingLR(o, 29, eta_min=0.01)),
    "cosine_warmup": rates(warm(lambda o: ls.CosineAnnealingLR(o, 25))),
    "one_cycle": rates(lambda o: ls.OneCycleLR(o, 0.4, total_steps=30)),
    "one_cycle_linear": rates(
        lambda o: ls.OneCycleLR(
            o, 0.4, total_steps=30, pct_start=0.4, anneal_strategy="linear", div_factor=10, final_div_factor=100
        )
    ),
    "one_cycle_three_phase": rates(lambda o: ls.OneCycleLR(o, 0.4, total_steps=30, three_phase=True)),
    # Zaremba's in epochs of three steps: four of them at the full rate, then * 0.8 after each.
    "step_first": rates(lambda o: ls.LambdaLR(o, lambda t: 0.8 ** max(t // 3 + 1 - 4, 0))),
    # fairseq's: up to the rate in 6 steps, then down with the square root of the count.
    "inverse_sqrt": rates(
        lambda o: ls.LambdaLR(o, lambda t: 0.2 + 0.8 * t / 6 if t < 6 else 6**0.5 * t**-0.5)
    ),
    # GNMT's: exponential warm-up from 1 % in 5 steps, halved at steps 20, 22, 24 and 26 of 30.
    "late_steps": rates(
        lambda o: ls.LambdaLR(
            o, lambda t: math.exp(math.log(0.01) / 5) ** (5 - t) if t <= 5 else 0.5 ** min(max(t - 18, 0) // 2, 4)
        )
    ),
}


def plateau(figures, mode="min", count=None, **options):
    """The learning rate after each figure."""
    optimizer = O.SGD([torch.zeros(1, requires_grad=True)], lr=20.0)
    schedule = ls.ReduceLROnPlateau(optimizer, mode=mode, eps=0.0, **options)
    result = []
    for figure in figures:
        schedule.step(figure)
        result.append(optimizer.param_groups[0]["lr"])
    return result


FIGURES = [300, 250, 251, 249.9, math.nan, 240, 240, 240.1, 239.9, 238, 237.5, 236, 300, 301, 302, 200, 201, 202, 203]
PLATEAUS = {
    "figures": FIGURES,
    "word_language_model": plateau(FIGURES, factor=0.25, patience=0, threshold=0.0),
    "patience": plateau(FIGURES, factor=0.5, patience=2, threshold=0.0),
    "threshold": plateau(FIGURES, factor=0.1, patience=1, threshold=0.01),
    "least": plateau(FIGURES, factor=0.25, patience=0, threshold=0.0, min_lr=0.5),
    "greater": plateau(FIGURES, mode="max", factor=0.5, patience=3, threshold=0.002),
}


def averaged(start):
    """The bias of SGD over ten steps, and its mean over the steps after `start`, by PyTorch's ASGD.

    ASGD forgets what its first step left, so it is begun one step before.
    """
    bias = values(lambda i: math.sin(1.3 * i + 1.2), 3).requires_grad_()
    optimizer = O.SGD([bias], lr=0.1)
    for t in range(STEPS):
        if t == start - 1:
            optimizer = O.ASGD([bias], lr=0.1, lambd=0.0, alpha=0.0, t0=0, foreach=False)
        bias.grad = values(lambda i: 1.5 * math.cos(0.7 * i + 1.1 * t + 1.0), 3)
        optimizer.step()
    return bias.detach().tolist() + optimizer.state[bias]["ax"].tolist()


AVERAGES = {"asgd": averaged(4)}


def number(x, digits):
    return "NAN" if math.isnan(x) else f"{x:.{digits}g}"


def emit(name, table, digits):
    print(f"inline const std::map<std::string, std::vector<double>> {name} = {{")
    for key, numbers in table.items():
        print(f'    {{"{key}",')
        text = ", ".join(number(x, digits) for x in numbers)
        print(f"     {{{text}}}}},")
    print("};")


print(f"// Written by tests/golden/optimizers.py with PyTorch {torch.__version__.split('+')[0]}.")
print("// clang-format off")
emit("kOptimizers", OPTIMIZERS, 9)
emit("kSchedules", SCHEDULES, 12)
emit("kPlateaus", PLATEAUS, 12)
emit("kAverages", AVERAGES, 9)
