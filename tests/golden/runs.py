"""Training runs of PyTorch's, stored in four precisions beside each other."""
import torch
from safetensors.torch import save_file

from resnet import deviation


def store_runs(train, path):
    """train(dtype) gives tensors of its first step and after its last by name, those of gradients "gradient/NAME", and its
    losses, for FP64, FP32 and under torch.autocast. Stored are all of FP64 and the losses of the others, "losses f32"; how far
    these are from FP64 goes into the metadata."""
    torch.set_num_threads(2)
    exact, losses = train(torch.float64)
    metadata = {"torch": torch.__version__}
    stored = {**exact, "losses f64": losses}
    for name, dtype in {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}.items():
        values, own = train(dtype)
        stored["losses " + name] = own
        far = {key: deviation(values[key], exact[key]) for key in exact}
        gradients = max(each for key, each in far.items() if key.startswith("gradient/"))
        others = [f"{key} {each:.1e}" for key, each in far.items() if not key.startswith("gradient")]
        metadata[name] = ", ".join([*others, f"gradients {gradients:.1e}",
                                    f"losses at most {((own - losses).abs() / losses).max().item():.0e}"])
    for item in metadata.items():
        print(*item)
    print([round(loss, 4) for loss in losses.tolist()])
    save_file(stored, path, metadata=metadata)
