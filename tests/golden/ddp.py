"""Golden run of two processes: tests/golden/ddp.safetensors, and its initial state.

    python ddp.py             # needs torch 2.11, numpy and safetensors; writes three files beside itself

Ten steps of a small convolutional network with batch norm under DistributedDataParallel, two processes joined by gloo.
The first half of each batch belongs to the first process, and batch norm sees the local half only, as with Tandem's ranks:
`mpirun -n 2 tandem train tests/golden/ddp.json` goes through the same steps (tests/program/ddp_golden_test.cpp).

    ddp_data.npz              ten batches of 16 images in order, and images to test with
    ddp_initial.safetensors   weights before the first step
    ddp.safetensors           of each step the mean of both losses and the norm of the averaged gradient, in FP64, FP32
                              and under torch.autocast to bfloat16; of the last two the weights after the last step,
                              with running statistics that are the mean of both processes'

The metadata of the last file give the deviation of PyTorch's runs from FP64, a lower bound for tolerances, and that of
runs with another division of the batch, which a comparison has to notice.
"""
import pathlib
import tempfile
import warnings

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import save_file
from torch.nn.parallel import DistributedDataParallel

from resnet import deviation, hashed, initial, signed_unit

HERE = pathlib.Path(__file__).parent
PROCESSES, STEPS, BATCH, TEST, SIDE, CLASSES = 2, 10, 16, 16, 12, 10
LR, MOMENTUM, DECAY = 0.05, 0.9, 1e-2
TYPES = {"f64": torch.float64, "f32": torch.float32, "bf16": torch.bfloat16}


def network():
    """Named as the layers of tests/golden/ddp.json are."""
    return nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1, bias=False), nn.BatchNorm2d(12), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(12, 24, 3, padding=1, bias=False), nn.BatchNorm2d(24), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, CLASSES))


def name_here(name):
    """PyTorch needs a flatten before the linear layer, which is Tandem's ninth."""
    return name.replace("9.", "8.", 1) if name.startswith("9.") else name


def initial_weights():
    weights = {}
    for name, tensor in network().state_dict().items():
        if tensor.dtype.is_floating_point and "running" not in name:
            tensor = torch.from_numpy(initial(name_here(name), tuple(tensor.shape)))
        weights[name] = tensor
    return weights


def data():
    """Images, half the pattern of their class and half noise in steps of 1/16, and labels."""
    count = STEPS * BATCH + TEST
    patterns = signed_unit("patterns", CLASSES * SIDE**2).reshape(CLASSES, SIDE**2)
    labels = (hashed("labels", count) % np.uint32(CLASSES)).astype(np.int64)
    noise = signed_unit("noise", count * SIDE**2).reshape(count, SIDE**2)
    images = np.round(8 * (patterns[labels] + noise)).astype(np.float32) / np.float32(16)
    return images.reshape(count, SIDE, SIDE, 1), labels


def loss_of(model, images, labels, dtype):
    lowered = dtype == torch.bfloat16
    x = torch.from_numpy(images).permute(0, 3, 1, 2)
    with torch.autocast("cpu", torch.bfloat16, enabled=lowered):
        logits = model(x if lowered else x.to(dtype))
    assert not lowered or logits.dtype == dtype
    return F.cross_entropy(logits if dtype == torch.float64 else logits.float(), torch.from_numpy(labels))


def train(rank, processes, dtype, distributed):
    """Losses of one process, norms of gradients, and its weights and running statistics at the end."""
    model = network()
    model.load_state_dict(initial_weights())
    model.to(torch.float64 if dtype == torch.float64 else torch.float32)
    # Not the buffers of the first process in the place of those of the others.
    learner = DistributedDataParallel(model, broadcast_buffers=False) if distributed else model
    optimizer = torch.optim.SGD(model.parameters(), LR, momentum=MOMENTUM, weight_decay=DECAY)
    images, labels = data()
    share = BATCH // processes
    losses, norms = [], []
    for step in range(STEPS):
        own = slice(step * BATCH + rank * share, step * BATCH + (rank + 1) * share)
        loss = loss_of(learner, images[own], labels[own], dtype)
        optimizer.zero_grad()
        loss.backward()
        norms.append(torch.cat([p.grad.double().flatten() for p in model.parameters()]).norm().item())
        optimizer.step()
        losses.append(loss.item())
    return {"losses": torch.tensor(losses, dtype=torch.float64),
            "gradient norms": torch.tensor(norms, dtype=torch.float64), "weights": model.state_dict()}


def process(rank, folder):
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", "Grad strides do not match")  # of filters with one input; slow, not wrong
    dist.init_process_group("gloo", f"file://{folder}/meeting", rank=rank, world_size=PROCESSES)
    runs = {name: train(rank, PROCESSES, dtype, True) for name, dtype in TYPES.items()}
    torch.save(runs, f"{folder}/{rank}")
    dist.destroy_process_group()


def merged(runs):
    """What all processes have alike, and the means of what each has of its own."""
    first = runs[0]
    weights = {}
    for name, tensor in first["weights"].items():
        same = [run["weights"][name] for run in runs]
        if "running" in name:
            weights[name] = torch.stack(same).mean(0)
        else:
            assert all(torch.equal(other, tensor) for other in same), name
            weights[name] = tensor
    assert all(torch.equal(run["gradient norms"], first["gradient norms"]) for run in runs)
    return {"losses": torch.stack([run["losses"] for run in runs]).mean(0),
            "gradient norms": first["gradient norms"], "weights": weights}


def distance(run, exact):
    losses = (run["losses"] - exact["losses"]).abs() / exact["losses"]
    norms = (run["gradient norms"] - exact["gradient norms"]).abs() / exact["gradient norms"]
    far = {name: (value.double() - exact["weights"][name].double()).abs().max().item()
           for name, value in run["weights"].items() if value.dtype.is_floating_point}
    name = max(far, key=far.get)
    whole = deviation(*(torch.cat([each["weights"][key].double().flatten() for key in far]) for each in (run, exact)))
    return (f"losses {losses.max():.1e}, gradient norms {norms.max():.1e}, weights {whole:.1e} in norm and "
            f"at most {far[name]:.1e} ({name_here(name)})")


def main():
    torch.set_num_threads(1)
    images, labels = data()
    trained = STEPS * BATCH
    np.savez_compressed(HERE / "ddp_data.npz", x_train=images[:trained], y_train=labels[:trained],
                        x_test=images[trained:], y_test=labels[trained:])
    save_file({name_here(name): value for name, value in initial_weights().items()}, HERE / "ddp_initial.safetensors")
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(process, (folder,), PROCESSES)
        each = [torch.load(f"{folder}/{rank}") for rank in range(PROCESSES)]
    runs = {name: merged([one[name] for one in each]) for name in TYPES}
    exact = runs["f64"]
    metadata = {"torch": torch.__version__, "deviation f32": distance(runs["f32"], exact),
                "deviation bf16": distance(runs["bf16"], exact)}
    # A whole batch is not two halves, since batch norm sees it; nor is the first half both.
    others = {"one process": train(0, 1, torch.float64, False), "first half": train(0, PROCESSES, torch.float64, False)}
    for name, run in others.items():
        metadata["deviation " + name] = distance(run, exact)
    stored = {}
    for name, run in runs.items():
        stored["losses " + name] = run["losses"]
        stored["gradient norms " + name] = run["gradient norms"]
        if name == "f64":
            continue
        for key, value in run["weights"].items():
            if value.dtype.is_floating_point:
                stored[f"weights {name}/{name_here(key)}"] = value
    for item in metadata.items():
        print(*item)
    print(exact["losses"].tolist())
    # In one text: the order of several keys is another one each time.
    notes = "; ".join(" ".join(item) for item in metadata.items())
    save_file(stored, HERE / "ddp.safetensors", metadata={"notes": notes})


if __name__ == "__main__":
    main()
