"""Workloads of bench/compare.py, with their names in workers and tables."""

import math
import typing


class Workload(typing.NamedTuple):
    description: str
    network: str  # name in the workers
    steps: int  # per block
    warmup: int  # steps
    items: int = 0  # per step, as the workers count them; 0 for a part
    loops: int = 0  # busy foreign processes on the same cores
    note: str = ""  # description of an unusual step
    part: bool = False  # a step is a part of a task (bench/parts.h), in FP32 and without phases
    files: str = ""  # script for the peer's interpreter that writes the input files
    parameters: int = 0  # of the model on both sides; 0: not compared
    first_loss: float = 0.0  # of both sides, up to FIRST_LOSS_TOLERANCE; 0: not compared


FIRST_LOSS_TOLERANCE = 0.2  # logits of a new GPT-2 have a variance of 0.3, which adds half of it to the logarithm of the classes


def transformer(description, network, steps, warmup, items, parameters, classes, note=""):
    return Workload(description, network, steps, warmup, items, note=note, parameters=parameters, first_loss=math.log(classes))


WORKLOADS = {
    "resnet20": Workload("ResNet-20, 28×28×1, batch 128", "resnet20", 8, 10, 128),
    "resnet50": Workload("ResNet-50, 224×224×3, batch 16", "resnet50", 1, 3, 16),
    "unet": Workload("U-Net of width 16 and 3 levels, 64×64×1, 11 classes, batch 16", "unet", 4, 6, 16),
    "ssd_small": Workload(
        "SSD of width 16 (ssd_small), 128×128×1, 11 classes, 4 objects an image, batch 32", "ssd_small", 1, 3, 32,
        note="Here and in SSD300 PyTorch's step is torchvision's: its SSD, with heads, anchors, matching and loss, on a body with "
             "Tandem's layers and as many parameters. Both sides have the same objects."),
    "ssd_small_300": Workload(
        "SSD of width 16 (ssd_small), 300×300×1, 11 classes, 4 objects an image, batch 8", "ssd_small_300", 1, 3, 8),
    "ssd300_resnet34": Workload("SSD300-ResNet-34, 300×300×3, 81 classes, 7 objects an image, batch 8", "ssd300_resnet34", 1, 2, 8),
    "ssdlite320": Workload(
        "SSDLite320-MobileNetV3-Large, 320×320×3, 81 classes, 7 objects an image, batch 8", "ssdlite320", 1, 3, 8,
        note="PyTorch's model is torchvision's own."),
    "dcgan": Workload(
        "DCGAN of width 32, 32×32×1, batch 64", "dcgan", 24, 10, 64,
        note="A step is an iteration of both networks (docs/gan.md), each with Adam, PyTorch's fused. PyTorch makes its images "
             "once, as its example does, and keeps what the generator's backward needs through the discriminator's phase; "
             "Tandem runs the generator in each phase. On both sides the discriminator's two losses have one backward, and its "
             "parameters no gradients in the generator's phase. An item is a real image."),
    "language": Workload(
        "LSTM language model 2×650, 10,000 words, 35 steps of 20 streams", "language", 2, 4, 35 * 20,
        note="Tied embedding and output weights; dropout 0.3; SGD without momentum, gradients clipped to a norm "
             "of 0.25, as in PyTorch's word_language_model; streams carry their state. An item is a word."),
    "translation": Workload(
        "Encoder–decoder 2+2×256 with attention, 8000 pieces, 64 pairs of 17 to 24 pieces", "translation", 2, 4, 64,
        note="GNMT's network (docs/translation.md): normalised additive attention, one table for both sides and the output, dropout "
             "0.3, smoothed labels, Adam (PyTorch's fused), gradients clipped to a norm of 1. PyTorch's encoder packs its "
             "sequences, as NVIDIA's does; Tandem's keeps the padded layout. An item is a pair."),
    "gpt_char": transformer(
        "GPT 4×128, 4 heads, 100 characters, 12 × 64 tokens", "gpt_char", 16, 10, 12 * 64, 808_576, 100,
        note="Here and in the other Transformers PyTorch uses scaled_dot_product_attention and fused AdamW; both sides clip gradients "
             "of text models to a norm of 1. Compiled: torch.compile of the model with its loss, whose memory excludes the peak of "
             "the compilation. An item is a token."),
    "gpt_char_384": transformer("GPT 6×384, 6 heads, 100 characters, 4 × 256 tokens", "gpt_char_384", 2, 4, 4 * 256, 10_758_528, 100),
    "gpt2_124m": transformer("GPT-2 124M, 4 × 256 tokens", "gpt2_124m", 1, 2, 4 * 256, 124_439_808, 50257),
    "bert_mini": transformer(
        "BERT-Mini 4×256, 4 heads, 8000 pieces, 64 × 128 tokens, 20 masked in each", "bert_mini", 1, 3, 64 * 128, 5_315_136, 8000,
        note="Dropout 0.1, of attention weights, too, as in configs/bert_mini.json; all texts are of full length, so that PyTorch needs "
             "no mask. An item is a token."),
    "transformer": transformer(
        "Transformer 3+3×256, 8000 pieces, 64 pairs of 17 to 24 pieces", "transformer", 2, 4, 64, 7_578_624, 8000 * math.exp(0.65),
        note="The network of docs/translation.md on the pairs of the workload translation, with dropout 0.3, of attention weights, too. "
             "The tied table's rows have a norm of 1, so the first logits have a variance of 1. The logit of the input word is the "
             "largest. Together they add 0.65 to the first loss."),
    "vit_ti": transformer("ViT-Ti/16, 224×224×3, batch 8", "vit_ti", 4, 4, 8, 5_717_416, 1000),
    "vit_fashion": transformer("ViT 4×128 of 4×4 patches (vit_fashion), 28×28×1, batch 128", "vit_fashion", 4, 6, 128, 540_170, 10),
    "ssd_matching": Workload(
        "SSD300's matching and coding, 8 images × 7 objects, 8732 anchors", "ssd_matching", 10, 3, part=True,
        note="Here and in SSD300's loss and boxes the other side is torchvision's SSD, on the same numbers."),
    "ssd_loss": Workload("SSD300's mining and loss, forward and backward, 8 × 8732 × 81 scores", "ssd_loss", 4, 3, part=True),
    "ssd_nms": Workload("SSD300's boxes from an image's scores, 1000 candidates, 81 classes", "ssd_nms", 10, 3, part=True,
                        note="Softmax, decoding and non-maximum suppression."),
    "coco_metric": Workload(
        "COCO's figures, 500 images × 100 detections, 80 categories", "coco_metric", 1, 1, part=True,
        note="Against pycocotools 2.0.11: evaluate, accumulate and summarize; files are read before. An item is an image."),
    "ssd_loader": Workload(
        "SSD's loader, 32 JPEGs of 500×375", "ssd_loader", 2, 1, part=True, files="synthetic_photos.py",
        note="Decode, crop by overlap, flip, photometric distortion, resize to 300×300, normalise; against torchvision's "
             "transforms.v2 on PIL's images, which are faster than on tensors of its decode_jpeg. Both use one thread, as a worker "
             "process of PyTorch's DataLoader does."),
    "resnet20_shared": Workload("ResNet-20, 28×28×1, batch 128, beside two busy loops", "resnet20", 2, 10, 128, loops=2),
}
NAMES = {"fp32": "FP32", "amp_bf16": "AMP-BF16", "amp_fp16": "AMP-FP16"}
# Opponents of Tandem by its precision: PyTorch in that precision, the same compiled, PyTorch in FP32 if that is faster, or Tandem's
# FP32.
OPPONENTS = {"fp32": ["pytorch", "pytorch_compiled"], "amp_bf16": ["pytorch", "pytorch_compiled", "pytorch_fp32", "fp32"],
             "amp_fp16": ["fp32"]}
# Levels of Tandem (docs/cpu.md), with the settings that limit PyTorch and its libraries to the same instructions.
LEVELS = {
    "v2": {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2"},
    "v3": {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"},
    "v4": {"ATEN_CPU_CAPABILITY": "avx512", "ONEDNN_MAX_CPU_ISA": "AVX512_CORE", "MKL_ENABLE_INSTRUCTIONS": "AVX512"},
    "v4_bf16": {"ATEN_CPU_CAPABILITY": "avx512", "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16", "MKL_ENABLE_INSTRUCTIONS": "AVX512"},
    "amx": {},  # the best of the CPU, as for Tandem
}
