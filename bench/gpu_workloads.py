"""GPU workloads for `tandem bench` and bench/pytorch_gpu_worker.py, on synthetic batches. tests/gpu/visit measures them, bench/GPU.md
shows the results."""

import typing


class Workload(typing.NamedTuple):
    description: str
    items: str  # unit of the rate
    batch: int  # samples per step
    config: tuple  # arguments of `tandem bench`
    peer: dict  # sizes for bench/pytorch_gpu_worker.py
    tiny: tuple  # replaces `config` on an emulated GPU
    tiny_peer: dict


def image_net(description, batch, config, **peer):
    return Workload(description, "images", batch, (config, f"data.batch_size={batch}"), {"batch": batch, **peer},
                    ("digits_lenet", "data.batch_size=4"), {"batch": 2, **peer, "side": 32})


def language(units):
    return Workload(f"LSTM language model 2×{units}, 10,000 words, 35 steps of 20 streams", "words", 20,
                    ("debian_lstm", "data.vocabulary=10000", f"model.units={units}", f"model.embedding={units}"),
                    {"words": 10000, "steps": 35, "streams": 20, "units": units},
                    ("debian_lstm", "data.vocabulary=50", "model.units=18", "model.embedding=18", "data.batch_size=2", "data.steps=3"),
                    {"words": 50, "steps": 3, "streams": 2, "units": 18})


WORKLOADS = {
    "resnet50": image_net("ResNet-50, 224×224×3", 256, "resnet50_synthetic", network="resnet50"),
    "resnet50_b128": image_net("ResNet-50, 224×224×3", 128, "resnet50_synthetic", network="resnet50"),
    "resnet20": image_net("ResNet-20, 28×28×1", 128, "resnet20_synthetic", network="resnet20"),
    "language_650": language(650),
    "language_1500": language(1500),
    "translation": Workload("Encoder–decoder 2+2×256 with attention, 8000 pieces, sentences of 64 pieces", "pairs", 64, ("translate_de",),
                            {"words": 8000, "longest": 64, "shortest": 64, "pairs": 64, "units": 256},
                            ("translate_de", "data.max_length=5", "data.batch_size=2", "model.units=12", "model.embedding=12"),
                            {"words": 8000, "longest": 8, "shortest": 8, "pairs": 2, "units": 12}),
    "ssd300_resnet34": Workload("SSD300-ResNet-34, 300×300×3, 81 classes, 100 objects an image", "images", 64,
                                ("ssd300_resnet34_coco", "data.batch_size=64"),
                                {"network": "ssd300_resnet34", "batch": 64, "objects": 100},
                                ("digits_mlp", "data.batch_size=4"),
                                {"network": "ssd_small", "batch": 2, "objects": 4}),
}
PRECISIONS = {"fp32": "FP32 (TF32)", "amp_bf16": "AMP-BF16", "amp_fp16": "AMP-FP16"}
# Target ratios of rates by (workload, precision, opponent). "own fp32": Tandem's.
AIMS = {("resnet50", "amp_fp16", "eager"): 1.5, ("resnet50", "amp_bf16", "eager"): 1.5,
        ("resnet50", "amp_fp16", "compile"): 1.2, ("resnet50", "amp_bf16", "compile"): 1.2,
        ("resnet20", "amp_fp16", "eager"): 3.0, ("resnet20", "amp_bf16", "eager"): 3.0,
        ("resnet50", "amp_fp16", "own fp32"): 2.0, ("resnet50", "amp_bf16", "own fp32"): 2.0,
        ("language_650", "amp_bf16", "eager"): 1.0}
