"""Writes scaler_traces.h: the course of the loss scale under sixteen scalers, each written here in its own
terms. The traces of `torch` and `flax` are recorded from torch.amp.GradScaler and flax's DynamicScale
themselves.

    pip install torch==2.11.0 flax==0.12.8; python scaler_traces.py > scaler_traces.h

A pattern has one letter a step: "." is clean, "x" overflowed. A trace ends where a scaler raises ("exhausted").
"""

import math
import random

import jax.numpy
import torch
from flax.training.dynamic_scale import DynamicScale


class Raised(Exception):
    pass


def torch_scaler(pattern, initial, interval, **_):
    scaler = torch.amp.GradScaler("cpu", init_scale=initial, growth_interval=interval)
    weight = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.0)
    for letter in pattern:
        optimizer.zero_grad()
        scaler.scale(weight.sum()).backward()
        if letter == "x":
            weight.grad.fill_(math.inf)
        scaler.step(optimizer)
        scaler.update()
        yield scaler.get_scale()


def fsdp(pattern, initial, interval, **_):
    scale, tracker = initial, 0
    for letter in pattern:
        found = 2.0 if letter == "x" else 0.0  # both of two ranks
        if found >= 1.0:
            scale, tracker = scale * 0.5, 0
        else:
            tracker += 1
            if tracker == interval:
                scale, tracker = scale * 2.0, 0
        yield scale


def apex(pattern, initial, interval, **_):
    scale, unskipped = min(2.0**24, initial), 0
    for letter in pattern:
        if letter == "x":
            scale, unskipped = scale / 2.0, 0
        else:
            unskipped += 1
        if unskipped == interval:
            scale, unskipped = min(2.0**24, scale * 2.0), 0
        yield scale


def apex_legacy(pattern, initial, interval, **_):
    scale, iteration, last = initial, 0, -1
    for letter in pattern:
        if letter == "x":
            scale, last = max(scale / 2.0, 1.0), iteration
        elif (iteration - last) % interval == 0:
            scale *= 2.0
        iteration += 1
        yield scale


def apex_hysteresis(pattern, initial, interval, hysteresis=2, **_):
    scale, growth, left = initial, 0, hysteresis
    for letter in pattern:
        found = letter == "x"
        if found:
            left -= 1
        if found and left > 0:
            growth = 0
            yield scale
            continue
        if found:
            scale, growth = scale * 0.5, 0
        else:
            growth += 1
            if growth == interval:
                scale, growth = scale * 2.0, 0
            left = hysteresis
        yield scale


def deepspeed(pattern, initial, interval, hysteresis=2, **_):
    scale, iteration, last, left = initial, 0, -1, hysteresis
    for letter in pattern:
        if letter == "x":
            if hysteresis == 1 or left == 1:
                if scale == 1.0:
                    raise Raised
                scale = max(scale / 2.0, 1.0)
            else:
                left -= 1
            last = iteration
        elif (iteration - last) % interval == 0:
            left = hysteresis
            scale *= 2.0
        iteration += 1
        yield scale


def deepspeed_fused(pattern, initial, interval, **_):
    scale, iteration, last = initial, 0, -1
    for letter in pattern:
        if letter == "x":
            scale, last = max(scale / 2.0, 1.0), iteration
        else:
            stable = iteration - last - 1
            if stable > 0 and stable % interval == 0:
                scale *= 2.0
        iteration += 1
        yield scale


def megatron(pattern, initial, interval, hysteresis=2, **_):
    scale, growth, left = initial, 0, hysteresis
    for letter in pattern:
        if letter == "x":
            growth = 0
            left -= 1
            if left <= 0:
                scale = max(scale * 0.5, 1.0)
        else:
            growth += 1
            if growth == interval:
                growth, left = 0, hysteresis
                scale *= 2.0
        yield scale


def keras(pattern, initial, interval, **_):
    scale, counter = initial, 0
    for letter in pattern:
        if letter == "x":
            scale, counter = scale / 2.0, 0
        elif counter == interval - 1:
            scale, counter = scale * 2.0, 0
        else:
            counter += 1
        yield scale


def tensorflow(pattern, initial, interval, **_):
    scale, good = initial, 0
    for letter in pattern:
        if letter == "x":
            scale, good = max(scale / 2.0, 1.0), 0
        elif good + 1 >= interval:
            scale, good = scale * 2.0, 0
        else:
            good += 1
        yield scale


def paddle(pattern, initial, interval, hysteresis=1, **_):
    scale, increase, decrease = initial, 0, 0
    for letter in pattern:
        if letter == "x":
            increase = 0
            decrease += 1
            if decrease == hysteresis:
                scale, decrease = scale * 0.5, 0
        else:
            decrease = 0
            increase += 1
            if increase == interval:
                scale, increase = scale * 2.0, 0
        yield scale


def mxnet(pattern, initial, interval, **_):
    scale = following = initial
    unskipped = 0
    for letter in pattern:
        scale = following  # what the last check decided takes effect at this one
        if letter == "x":
            following, unskipped = scale / 2.0, 0
        else:
            unskipped += 1
        if unskipped == interval:
            following, unskipped = min(2.0**24, scale * 2.0), 0
        yield scale


def marian(pattern, initial, interval, factor=2.0, **_):
    scale, clean = initial, 0
    for letter in pattern:
        if letter == "x" and scale > 8.0:
            scale, clean = scale / factor, 0
        else:  # at the floor NaN is repaired, which makes the step a clean one
            clean += 1
            if clean == interval:
                scale, clean = scale * factor, 0
        yield scale


def openseq2seq(pattern, initial, interval, **_):
    scale, iteration, last = initial, 0, -1
    for letter in pattern:
        if letter == "x":
            scale, last = max(1.0, scale / 2.0), iteration
        elif (iteration - last) % interval == 0:
            scale = min(2.0**24, scale * 2.0)
        iteration += 1
        yield scale


def fairseq(pattern, initial, interval, tolerance=0.0, **_):
    scale, iteration, last_overflow, last_rescale, overflows = initial, 0, -1, -1, 0
    for letter in pattern:
        if letter == "x":
            before = scale
            last_overflow = iteration
            overflows += 1
            if overflows / float(iteration - last_rescale) >= tolerance:
                scale /= 2.0
                last_rescale, overflows = iteration, 0
            if scale <= 1e-4:
                scale = before
                raise Raised
        elif (iteration - last_overflow) % interval == 0:
            scale *= 2.0
            last_rescale = iteration
        iteration += 1
        yield scale


def flax(pattern, initial, interval, **_):
    scaler = DynamicScale(growth_interval=interval, scale=jax.numpy.float32(initial))
    for letter in pattern:
        factor = 1.0 if letter == "." else math.inf
        scaler = scaler.value_and_grad(lambda weight: factor * weight)(jax.numpy.float32(0.5))[0]
        yield float(scaler.scale)


def nvcaffe(amax, target=4.0, **_):
    for value in amax:
        yield target / value


def logmax(amax, **_):
    x_hat = slow_x_hat = square_hat = 0.0
    correction1 = correction2 = 1.0
    for value in amax:
        x = 16.0 if value is None else math.log2(value)
        x_hat = 0.99 * x_hat + 0.01 * x
        correction1 *= 0.99
        slow_x_hat = 0.999 * slow_x_hat + 0.001 * x
        square_hat = 0.999 * square_hat + 0.001 * x * x
        correction2 *= 0.999
        mu = x_hat / (1.0 - correction1)
        slow_mu = slow_x_hat / (1.0 - correction2)
        variance = square_hat / (1.0 - correction2) - slow_mu**2
        cutoff = mu + 3.09 * math.sqrt(max(variance, 0.0))
        yield min(max(2.0 ** (16.0 - cutoff), 1.0), 2.0**24)


def patterns():
    generator = random.Random(7)
    mixed = "".join("x" if generator.random() < 0.2 else "." for _ in range(60))
    return [mixed, "." * 14 + "xxx" + "." * 12 + "x.x.x" + "." * 11, "xx." + "x" * 40 + "." * 12]


def number(value):
    return f"{float(value):.17g}"


def trace(preset, scaler, initial, interval=5, amax=None, **options):
    steps = amax if amax is not None else options.pop("pattern")
    scales, exhausted = [], "false"
    course = scaler(steps, initial=initial, interval=interval, **options) if amax is None else scaler(steps, **options)
    try:
        for scale in course:
            scales.append(number(scale))
    except Raised:
        exhausted = "true"
    pattern = "".join("x" if a is None else "." for a in amax) if amax is not None else steps[: len(scales) + (exhausted == "true")]
    sizes = ", ".join(number(0.0 if a is None else a) for a in amax) if amax is not None else ""
    print(
        f'    {{"{preset}", {number(initial)}, {interval}, {options.get("hysteresis", 0)}, '
        f'{number(options.get("tolerance", 0.0))}, {number(options.get("factor", 1.0))}, {exhausted},\n'
        f'     "{pattern}",\n     {{{sizes}}},\n     {{{", ".join(scales)}}}}},'
    )


def main():
    print("// Written by scaler_traces.py.\n#pragma once\n\n#include <vector>\n")
    print("namespace tandem::test {\n")
    print("struct ScalerTrace {\n  const char* preset;\n  double initial;\n  int interval;\n  int hysteresis;  // 0: the preset's")
    print("  double tolerance;\n  double factor;  // of growth, 1: the preset's\n  bool exhausted;\n  const char* pattern;")
    print("  std::vector<double> amax;\n  std::vector<double> scales;  // after each step\n};\n")
    print("// clang-format off\nconst std::vector<ScalerTrace> kScalerTraces{")
    plain = {
        "torch": torch_scaler, "fsdp": fsdp, "apex": apex, "apex_legacy": apex_legacy, "apex_hysteresis": apex_hysteresis,
        "deepspeed": deepspeed, "deepspeed_fused": deepspeed_fused, "megatron": megatron, "keras": keras,
        "tensorflow": tensorflow, "paddle": paddle, "paddle_amp": paddle, "mxnet": mxnet, "openseq2seq": openseq2seq,
        "fairseq": fairseq, "flax": flax,
    }
    for name, scaler in plain.items():
        for index, pattern in enumerate(patterns()):
            trace(name, scaler, 2.0**15 if index == 2 else 2.0**22, pattern=pattern)
    for name in ("apex_hysteresis", "deepspeed", "megatron", "paddle"):
        for pattern in patterns():
            trace(name, plain[name], 2.0**20, pattern=pattern, hysteresis=3)
    for tolerance in (0.1, 0.3):
        for pattern in patterns():
            trace("fairseq", fairseq, 2.0**15, pattern=pattern, tolerance=tolerance)
    for pattern in patterns():
        trace("marian", marian, 64.0, pattern=pattern, factor=2.0)
    generator = random.Random(11)
    amax = [math.exp(generator.gauss(-5.0, 1.5)) for _ in range(50)]
    trace("nvcaffe", nvcaffe, 1.0, amax=amax)
    trace("logmax", logmax, 1.0, amax=[None if i in (20, 21) else a for i, a in enumerate(amax)])
    print("};\n// clang-format on\n\n}  // namespace tandem::test")


main()
