"""Learning curves of each family from Tandem's and from PyTorch's initial values: the tables of bench/LEARNING.md.

    python bench/learning.py PROGRAM [FAMILY…]      # needs torch, numpy, safetensors and sacrebleu; takes minutes per family

The runs of a family differ only in their initial weights. "tandem": the default; "pytorch": drawn by torch.nn's modules, or by the
original code of the network, and loaded from a file; "init X": by `model.init`. From equal weights, Tandem and PyTorch train alike
step by step (tests/golden), so "pytorch" is PyTorch's curve. "in PyTorch" is trained by PyTorch on data that it shuffles. A row is
an epoch; figures are means over the seeds, ± the standard deviation.
"""
import functools
import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import typing

import torch
from safetensors import safe_open
from safetensors.torch import save_file

import learning_torch as peer

SEEDS = (1, 2, 3)
SHARES = ("accuracy", "miou", "AP50")  # shown in percent
LICENCES = pathlib.Path("/usr/share/common-licenses")  # on Debian


# Data.

def licence_lines():
    """Lines of four licences, labelled by licence; every fifth is for test."""
    lines = [(name, " ".join(line.split())) for name in ("Apache-2.0", "Artistic", "GPL-3", "MPL-1.1")
             for line in (LICENCES / name).read_text().splitlines()]
    rows = [f"{name}\t{line}\n" for name, line in lines if len(line) > 20]
    return {"train.tsv": "".join(row for i, row in enumerate(rows) if i % 5),
            "test.tsv": "".join(row for i, row in enumerate(rows) if i % 5 == 0)}


def licence_text():
    text = (LICENCES / "GPL-3").read_text()
    return {"train.txt": text[:-6000], "test.txt": text[-6000:]}


def toy_language():
    """Sentences in a language of 12 words, translated word by word in reverse order."""
    words = "ba ce di fo gu ka le mi no pu ra se".split()
    said = dict(zip(words, "one two three four five six seven eight nine ten eleven twelve".split()))
    draw = random.Random(1)
    pairs = set()
    while len(pairs) < 3000:
        pairs.add(tuple(draw.choices(words, k=draw.randint(3, 8))))
    rows = [f"{' '.join(pair)}\t{' '.join(said[word] for word in reversed(pair))}\n" for pair in sorted(pairs)]
    draw.shuffle(rows)
    return {"train.tsv": "".join(rows[:2700]), "test.tsv": "".join(rows[2700:])}


LANGUAGE = {"task": "language", "data": {"name": "text", "train": "train.txt", "validation": "test.txt", "test": "test.txt",
                                         "tokenizer": "characters", "batch_size": 16, "eval_batch_size": 16, "steps": 50},
            "model": {"name": "language_model", "embedding": 128, "units": 128, "num_layers": 1, "dropout": 0.0},
            "optimizer": {"name": "adam", "lr": 0.002}, "clip_norm": 1.0, "epochs": 8}
TEXTS = {"task": "text_classification",
         "data": {"name": "labelled_lines", "train": "train.tsv", "test": "test.tsv", "batch_size": 32},
         "model": {"name": "text_classifier", "embedding": 64, "units": 64, "dropout": 0.0},
         "optimizer": {"name": "adam", "lr": 0.002}, "epochs": 5}
TRANSLATION = {"task": "translation",
               "data": {"name": "text_pairs", "train": {"table": "train.tsv"}, "validation": {"table": "test.tsv"},
                        "source_codec": "spaces", "target_codec": "spaces", "max_length": 10, "batch_size": 32},
               "model": {"name": "encoder_decoder", "embedding": 128, "units": 128, "encoder_layers": 2, "decoder_layers": 2,
                         "dropout": 0.0},
               "optimizer": {"name": "adam", "lr": 0.002}, "clip_norm": 1.0, "eval": {"beam": 1}, "epochs": 5}



class Family(typing.NamedTuple):
    recipe: object  # name of a recipe of Tandem, or a configuration
    metric: str
    start: typing.Callable  # makes PyTorch's network from the shapes of the tensors
    arguments: list = []
    files: typing.Callable = dict  # makes the data files: texts by name
    inits: tuple = ()  # further values of model.init
    in_torch: typing.Callable = None  # makes PyTorch's curve from the seed and the folder of the files


def language(tied):
    return Family(LANGUAGE, "perplexity", functools.partial(peer.language_model, tied=tied), [f"model.tied={str(tied).lower()}"],
                  licence_text, (0.05, 0.1), lambda seed, folder: peer.language(seed, folder, LANGUAGE, tied))


def translation(tied):
    return Family(TRANSLATION, "bleu", functools.partial(peer.translator, tied=tied), [f"model.tied={str(tied).lower()}"],
                  toy_language, (0.1, 0.3), lambda seed, folder: peer.translation(seed, folder, TRANSLATION, tied))


FAMILIES = {
    "mlp": Family("digits_mlp", "accuracy", peer.layers_by_name, ["schedule=constant", "epochs=5"],
                  in_torch=lambda seed, _: peer.mlp(seed, 5)),
    "lenet5": Family("digits_lenet", "accuracy", peer.layers_by_name, ["schedule=constant", "optimizer.lr=0.01", "epochs=6"],
                     in_torch=lambda seed, _: peer.lenet5(seed, 6)),
    "resnet20": Family("fashion_resnet20", "accuracy", peer.residual,
                       ["data=digits", "data.batch_size=32", "data.eval_batch_size=100", "schedule=constant", "epochs=4"],
                       in_torch=lambda seed, _: peer.resnet20(seed, 4)),
    "unet": Family("unet_scenes", "miou", peer.unet_of,
                   ["data.items=digits", "data.train_size=320", "data.test_size=50", "model.width=8", "epochs=16"]),
    "ssd_small": Family("ssd_scenes", "AP50", peer.drawn_as(peer.of_detector),
                        ["data.items=digits", "data.scene_size=96", "data.train_size=320", "data.test_size=50", "epochs=5"]),
    "dcgan": Family("dcgan_fashion", "fd_lenet", peer.drawn_as(peer.of_dcgan),
                    ["data.train_size=3200", "model.width=16", "epochs=2"]),
    "texts": Family(TEXTS, "accuracy", peer.text_classifier, [], licence_lines, (0.1,),
                    lambda seed, folder: peer.texts(seed, folder, TEXTS)),
    "language": language(False),
    "language-tied": language(True),
    "translation": translation(False),
    "translation-tied": translation(True),
}


def newest(run):
    return max(run.glob("checkpoints/step-*"), key=lambda path: int(path.name[5:])) / "weights.safetensors"


def shapes_of(run):
    with safe_open(newest(run), "pt") as weights:
        return {name: tuple(weights.get_slice(name).get_shape()) for name in weights.keys()}


def train(program, folder, recipe, arguments, metric):
    """The metric after each epoch."""
    run = pathlib.Path(tempfile.mkdtemp(dir=folder))
    ended = subprocess.run([program, "train", recipe, *arguments, "eval.every_epochs=1", f"run_dir={run}", "--quiet"], cwd=folder,
                           capture_output=True, text=True)
    if ended.returncode != 0:
        sys.exit(f"{recipe} {' '.join(arguments)}: {ended.stderr}")
    events = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    evaluations = [event for event in events if event["event"] == "eval"]
    chosen = [event for event in evaluations if event["split"] == "validation"] or evaluations  # without a validation split: test
    return run, [event["metrics"][metric] * (100 if metric in SHARES else 1) for event in chosen]


def started_by_pytorch(make, shapes, seed, path):
    torch.manual_seed(seed)
    drawn = {name: tensor.detach().clone().contiguous() for name, tensor in make(shapes).state_dict().items() if name in shapes}
    if missing := shapes.keys() - drawn.keys():
        sys.exit(f"PyTorch's network has no {sorted(missing)}")
    save_file(drawn, path)


def curves(program, family):
    """Curves of each seed, by the name of the initial weights."""
    found = {}
    with tempfile.TemporaryDirectory(prefix="tandem-learning-") as name:
        folder, recipe = pathlib.Path(name), family.recipe
        for file, text in family.files().items():
            (folder / file).write_text(text)
        if not isinstance(recipe, str):
            (folder / "recipe.json").write_text(json.dumps(recipe))
            recipe = "recipe.json"
        for seed in SEEDS:
            own = [*family.arguments, f"seed={seed}"]
            run, curve = train(program, folder, recipe, own, family.metric)
            found.setdefault("tandem", []).append(curve)
            start = folder / f"start-{seed}.safetensors"
            started_by_pytorch(family.start, shapes_of(run), seed, start)
            starts = {"pytorch": f"init_from.path={start}"} | {f"init {init}": f"model.init={init}" for init in family.inits}
            for arm, argument in starts.items():
                found.setdefault(arm, []).append(train(program, folder, recipe, [*own, argument], family.metric)[1])
            if family.in_torch:
                found.setdefault("in PyTorch", []).append(family.in_torch(seed, folder))
    return found


def main():
    program = str(pathlib.Path(sys.argv[1]).resolve())
    for family in sys.argv[2:] or FAMILIES:
        found = curves(program, FAMILIES[family])
        print(f"\n`{family}`, {FAMILIES[family].metric}\n\n| epoch | {' | '.join(found)} |\n| --- |{' ---: |' * len(found)}")
        for epoch in range(min(len(curve) for arm in found.values() for curve in arm)):
            cells = []
            for arm in found.values():
                values = [curve[epoch] for curve in arm]
                cells.append(f"{statistics.mean(values):.2f} ± {statistics.stdev(values):.2f}")
            print(f"| {epoch + 1} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
