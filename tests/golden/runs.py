"""Training runs of PyTorch in four precisions."""
import contextlib

import torch
from safetensors.torch import save_file

from resnet import deviation

LOSS_SCALE = 1024.0  # of f16


def is_low(dtype):
    return dtype in (torch.bfloat16, torch.float16)


def autocast(dtype):
    return torch.autocast("cpu", dtype) if is_low(dtype) else contextlib.nullcontext()


def backward(loss, model, dtype):
    """Fresh gradients, by way of the loss scale."""
    scale = LOSS_SCALE if dtype == torch.float16 else 1.0
    model.zero_grad()
    (loss * scale).backward()
    for parameter in model.parameters():
        parameter.grad /= scale


def store_runs(train, path, notes=None):
    """train(dtype) gives tensors of its first step and after its last by name, those of gradients "gradient/NAME",
    those of batch norms "statistic/NAME", and its losses, for FP64, FP32 and under torch.autocast. Stored are all of
    FP64 and the losses of the others, "losses f32"; how far these are from FP64 goes into the metadata, beside
    `notes`."""
    torch.set_num_threads(2)
    exact, losses = train(torch.float64)
    metadata = {"torch": torch.__version__, **(notes or {})}
    stored = {**exact, "losses f64": losses}
    for name, dtype in {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}.items():
        values, own = train(dtype)
        stored["losses " + name] = own
        far = {key: deviation(values[key], exact[key]) for key in exact}
        gradients = max(each for key, each in far.items() if key.startswith("gradient/"))
        others = [f"{key} {each:.1e}" for key, each in far.items() if "/" not in key]
        statistics = [each for key, each in far.items() if key.startswith("statistic/")]
        others += [f"statistics {max(statistics):.1e}"] if statistics else []
        metadata[name] = ", ".join([*others, f"gradients {gradients:.1e}",
                                    f"losses at most {((own - losses).abs() / losses).max().item():.0e}"])
    for item in metadata.items():
        print(*item)
    print([round(loss, 4) for loss in losses.flatten().tolist()])
    save_file(stored, path, metadata=metadata)
