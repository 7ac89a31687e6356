"""Makes tests/golden/reference.safetensors with the reference implementation, or checks a file that Tandem wrote.

    python safetensors_file.py make            # needs torch and safetensors
    python safetensors_file.py check FILE      # exits 1 unless FILE holds the same tensors
"""
import pathlib
import sys

import torch
from safetensors import safe_open
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).parent


def tensors():
    ramp = torch.arange(6, dtype=torch.float64).reshape(2, 3) / 4 - 0.5
    return {
        "f64": ramp,
        "f32": ramp.to(torch.float32),
        "f16": ramp.to(torch.float16),
        "bf16": ramp.to(torch.bfloat16),
        "i64": torch.tensor([-(2**62), 0, 2**62]),
        "i32": torch.tensor([[-5], [7]], dtype=torch.int32),
        "u8": torch.arange(5, dtype=torch.uint8),
        "bool": torch.tensor([True, False, True]),
        "scalar": torch.tensor(2.5),
        "empty": torch.zeros(0, 4),
        "name with spaces, ünïcode and \"quotes\"": torch.tensor([1.0]),
    }


def main():
    if sys.argv[1:] == ["make"]:
        save_file(tensors(), HERE / "reference.safetensors", metadata={"made by": "safetensors"})
        return 0
    if len(sys.argv) == 3 and sys.argv[1] == "check":
        expected = tensors()
        with safe_open(sys.argv[2], framework="pt") as file:
            same = set(file.keys()) == set(expected) and file.metadata() == {"made by": "safetensors"}
            for name, tensor in expected.items():
                found = file.get_tensor(name)
                same &= found.dtype == tensor.dtype and torch.equal(found, tensor)
        print("same" if same else "different")
        return 0 if same else 1
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
