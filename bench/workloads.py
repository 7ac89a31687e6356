"""What bench/compare.py measures, as it calls it and as the tables do."""

import typing


class Workload(typing.NamedTuple):
    description: str
    network: str  # as the workers know it
    steps: int  # a block
    warmup: int  # steps
    loops: int = 0  # foreign processes that are busy on the same cores
    note: str = ""  # what its step is, where it is not as the other ones' are


WORKLOADS = {
    "resnet20": Workload("ResNet-20, 28×28×1, batch 128", "resnet20", 8, 10),
    "resnet50": Workload("ResNet-50, 224×224×3, batch 16", "resnet50", 1, 3),
    "unet": Workload("U-Net of width 16 and 3 levels, 64×64×1, 11 classes, batch 16", "unet", 4, 6),
    "ssd_small": Workload(
        "SSD of width 16 (ssd_small), 128×128×1, 11 classes, 4 objects an image, batch 32", "ssd_small", 1, 3,
        note="Here and in SSD300 PyTorch's step is torchvision's: its SSD, with heads, anchors, matching and loss, on a body with "
             "Tandem's layers and as many parameters. Both sides have the same objects."),
    "ssd300_resnet34": Workload("SSD300-ResNet-34, 300×300×3, 81 classes, 7 objects an image, batch 8", "ssd300_resnet34", 1, 2),
    "dcgan": Workload(
        "DCGAN of width 32, 32×32×1, batch 64", "dcgan", 24, 10,
        note="A step is an iteration of both networks (docs/gan.md), each with Adam, PyTorch's fused. PyTorch makes its images "
             "once, as its example does, and keeps what the generator's backward needs through the discriminator's phase; "
             "Tandem runs the generator in each phase. On both sides the discriminator's two losses have one backward, and its "
             "parameters no gradients in the generator's phase. An item is a real image."),
    "language": Workload(
        "LSTM language model 2×650, 10,000 words, 35 steps of 20 streams", "language", 2, 4,
        note="The table of the embedding is the output's weights; dropout 0.3; SGD without momentum, gradients clipped to a norm "
             "of 0.25, as in PyTorch's word_language_model; streams go on with their state. An item is a word."),
    "translation": Workload(
        "Encoder–decoder 2+2×256 with attention, 8000 pieces, 64 pairs of 17 to 24 pieces", "translation", 2, 4,
        note="GNMT's network (docs/translation.md): normalised additive attention, one table for both sides and the output, dropout "
             "0.3, smoothed labels, Adam (PyTorch's fused), gradients clipped to a norm of 1. PyTorch's encoder packs its "
             "sequences, as NVIDIA's does; Tandem's keeps the padded layout. An item is a pair."),
    "resnet20_shared": Workload("ResNet-20, 28×28×1, batch 128, beside two busy loops", "resnet20", 2, 10, loops=2),
}
NAMES = {"fp32": "FP32", "amp_bf16": "AMP-BF16", "amp_fp16": "AMP-FP16"}
# What Tandem in a precision is compared with: the same precision of PyTorch, that with Intel's extension, PyTorch in FP32
# where that is its faster one, or its own FP32.
OPPONENTS = {"fp32": ["pytorch", "ipex"], "amp_bf16": ["pytorch", "ipex", "pytorch_fp32", "fp32"], "amp_fp16": ["fp32"]}
ON_REQUEST = {"ipex"}  # an environment of its own
# A level of Tandem's (docs/cpu.md), and what makes PyTorch and its libraries use the same instructions.
LEVELS = {
    "v2": {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2"},
    "v3": {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"},
    "v4": {"ATEN_CPU_CAPABILITY": "avx512", "ONEDNN_MAX_CPU_ISA": "AVX512_CORE", "MKL_ENABLE_INSTRUCTIONS": "AVX512"},
    "v4_bf16": {"ATEN_CPU_CAPABILITY": "avx512", "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16", "MKL_ENABLE_INSTRUCTIONS": "AVX512"},
}
