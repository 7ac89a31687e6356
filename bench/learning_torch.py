"""PyTorch networks for learning.py, initialised by PyTorch's modules or by the original code of the network, and PyTorch's training
of some of them."""
import gzip
import math
import pathlib
import random
import re
import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests" / "golden"))
import encoder_decoder  # noqa: E402
import resnet  # noqa: E402
import unet  # noqa: E402

NO_TARGET = -1


# Networks with the names of Tandem's parameters, in the sizes of `shapes`.

def layers_by_name(shapes):
    """Linear and convolution layers with their default initialisation."""
    net = nn.Module()
    for name in sorted({name.rsplit(".", 1)[0] for name in shapes}):
        shape = shapes[name + ".weight"]
        net.add_module(name, nn.Linear(shape[1], shape[0]) if len(shape) == 2 else nn.Conv2d(shape[1], shape[0], shape[2:]))
    return net


def he(net):
    """torchvision's ResNet."""
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return net


def residual(shapes=None):
    """ResNet-20 of grey images."""
    return he(resnet.ResNet(1, 16, (3, 3, 3), False, False))


def unet_of(shapes):
    out = shapes["outc.conv.weight"]
    return unet.UNet(shapes["inc.double_conv.0.weight"][1], out[0], out[1], sum(".up.weight" in name for name in shapes))


def drawn_as(draw):
    """Parameters without a forward pass: draw(name, shape) makes each."""
    def make(shapes):
        net = nn.Module()
        net.state_dict = lambda: {
            name: torch.tensor(0) if name.endswith("num_batches_tracked") else draw(name, torch.empty(shape))
            for name, shape in shapes.items()}
        return net
    return make


def of_dcgan(name, tensor):
    """weights_init of PyTorch's DCGAN example."""
    if tensor.dim() == 4:
        return nn.init.normal_(tensor, 0.0, 0.02)
    if name.endswith("weight"):
        return nn.init.normal_(tensor, 1.0, 0.02)
    return nn.init.constant_(tensor, float(name.endswith("running_var")))


def of_detector(name, tensor):
    """Heads of torchvision's SSD, body of its ResNet."""
    if tensor.dim() == 4 and "head" in name:
        return nn.init.xavier_uniform_(tensor)
    if tensor.dim() == 4:
        return nn.init.kaiming_normal_(tensor, mode="fan_out", nonlinearity="relu")
    return nn.init.constant_(tensor, float(name.endswith(("weight", "running_var"))))


def recurrent(shapes, prefix="rnn."):
    gates, inputs = shapes[prefix + "weight_ih_l0"]
    layers = sum(name.startswith(prefix + "weight_ih") and "reverse" not in name for name in shapes)
    return nn.LSTM(inputs, gates // 4, layers, bidirectional=prefix + "weight_ih_l0_reverse" in shapes)


def language_model(shapes, tied=False):
    """torch.nn's modules; tied weights are the embedding's table."""
    net = nn.Module()
    net.encoder, net.rnn = nn.Embedding(*shapes["encoder.weight"]), recurrent(shapes)
    net.decoder = nn.Linear(net.rnn.hidden_size, shapes["encoder.weight"][0])
    if tied:
        net.decoder.weight = net.encoder.weight
    return net


def text_classifier(shapes):
    net = nn.Module()
    net.embedding, net.rnn = nn.Embedding(*shapes["embedding.weight"]), recurrent(shapes)
    net.classifier = nn.Linear(*reversed(shapes["classifier.weight"]))
    return net


def gnmt(words, others, embedding, units, layers, tied):
    """NVIDIA's GNMT in torch.nn's modules; its normalised attention starts with length 1/sqrt(units), as there."""
    net = encoder_decoder.Network(dict(attention="bahdanau_normalised", words=[words, others], embedding=embedding, units=units,
                                       layers=layers, tied=tied))
    attention = net.decoder.att_rnn.attn
    nn.init.uniform_(attention.linear_att, -units ** -0.5, units ** -0.5)
    nn.init.constant_(attention.normalize_scalar, units ** -0.5)
    nn.init.zeros_(attention.normalize_bias)
    return net


def translator(shapes, tied=False):
    (words, embedding), units = shapes["encoder.embedder.weight"], shapes["decoder.att_rnn.rnn.weight_hh_l0"][1]
    count = lambda side: sum(f"{side}.rnn_layers" in name and name.endswith("weight_hh_l0") for name in shapes)
    others = shapes["decoder.classifier.classifier.bias"][0]
    return gnmt(words, others, embedding, units, [count("encoder"), count("decoder") + 1], tied)


# PyTorch's training: the metric after each epoch, on data of the same kind, drawn and shuffled by PyTorch.

def step(optimizer, loss, clip=None):
    optimizer.zero_grad()
    loss.backward()
    if clip:
        nn.utils.clip_grad_norm_([each for group in optimizer.param_groups for each in group["params"]], clip)
    optimizer.step()


def digits(side):
    """Images [N,1,S,S] and labels of Tandem's digits, split by a fifth of each class."""
    read = lambda name, skip: torch.frombuffer(
        bytearray(gzip.decompress((HERE.parent / "data" / "digits" / name).read_bytes())[skip:]), dtype=torch.uint8)
    labels = read("digits-labels-idx1-ubyte.gz", 8).long()
    images = (read("digits-images-idx3-ubyte.gz", 16).reshape(-1, 1, 8, 8) / 255.0 - 0.3053) / 0.3759
    if side != 8:
        images = F.interpolate(images, (side, side), mode="bilinear")
    test = torch.zeros(len(labels), dtype=torch.bool)
    for label in range(10):
        rows = (labels == label).nonzero()[:, 0]
        test[rows[torch.randperm(len(rows))][:len(rows) // 5]] = True
    return (images[~test], labels[~test]), (images[test], labels[test])


def images(seed, epochs, make, optimizer_of, side=8):
    torch.manual_seed(seed)
    (x, y), (x_test, y_test) = digits(side)
    net = make()
    optimizer, curve = optimizer_of(net), []
    for _ in range(epochs):
        net.train()
        for rows in torch.randperm(len(x)).split(32):
            step(optimizer, F.cross_entropy(net(x[rows]), y[rows]))
        net.eval()
        with torch.no_grad():
            curve.append(100.0 * (net(x_test).argmax(1) == y_test).float().mean().item())
    return curve


def mlp(seed, epochs):
    make = lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    return images(seed, epochs, make, lambda net: torch.optim.Adam(net.parameters(), 0.003))


def lenet5(seed, epochs):
    make = lambda: nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(64, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))
    return images(seed, epochs, make, lambda net: torch.optim.SGD(net.parameters(), 0.01, 0.9, weight_decay=1e-4), 16)


def resnet20(seed, epochs):
    def optimizer(net):
        free = re.compile(r"bias|bn|downsample\.1")
        parts = [[each for name, each in net.named_parameters() if bool(free.search(name)) == kind] for kind in (False, True)]
        return torch.optim.SGD([{"params": parts[0]}, {"params": parts[1], "weight_decay": 0.0}], 0.1, 0.9, weight_decay=5e-4)
    return images(seed, epochs, residual, optimizer)


def language(seed, folder, recipe, tied):
    torch.manual_seed(seed)
    data, units = recipe["data"], recipe["model"]["units"]
    texts = [(folder / data[split]).read_text() for split in ("train", "test")]
    number = {letter: i for i, letter in enumerate(sorted(set("".join(texts))))}
    net = language_model({"encoder.weight": (len(number), units), "rnn.weight_ih_l0": (4 * units, units)}, tied)
    adam = torch.optim.Adam(net.parameters(), recipe["optimizer"]["lr"])

    def mean_loss(text, train):
        ids = torch.tensor([number[letter] for letter in text])
        rows = ids[:len(ids) // data["batch_size"] * data["batch_size"]].reshape(data["batch_size"], -1).T
        state, total = None, 0.0
        for first in range(0, len(rows) - 1, data["steps"]):
            target = rows[first + 1:first + 1 + data["steps"]]
            y, state = net.rnn(net.encoder(rows[first:first + len(target)]), state)
            state = tuple(part.detach() for part in state)
            loss = F.cross_entropy(net.decoder(y).flatten(0, 1), target.flatten())
            if train:
                step(adam, loss, recipe["clip_norm"])
            total += loss.item() * target.numel()
        return total / (rows.numel() - data["batch_size"])

    curve = []
    for _ in range(recipe["epochs"]):
        mean_loss(texts[0], True)
        with torch.no_grad():
            curve.append(math.exp(mean_loss(texts[1], False)))
    return curve


def table(path):
    return [line.split("\t") for line in path.read_text().splitlines()]


def padded(rows, value):
    """[T,N], and the lengths."""
    return (nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], padding_value=value),
            torch.tensor([len(row) for row in rows]))


def batches(rows, size, draw):
    """Batches of rows of similar length, shuffled each time."""
    ordered = sorted(draw.sample(rows, len(rows)), key=lambda row: len(row[0]))
    cut = [ordered[i:i + size] for i in range(0, len(rows), size)]
    return draw.sample(cut, len(cut))


def texts(seed, folder, recipe):
    torch.manual_seed(seed)
    draw = random.Random(seed)
    split = lambda text: re.findall(r"[^\W_]+(?:'[^\W_]+)*|\.", text.lower()) + ["<end>"]
    train, test = ([(split(text), label) for label, text in table(folder / recipe["data"][part])] for part in ("train", "test"))
    number = {word: i for i, word in enumerate(["<unk>", *sorted({word for row, _ in train for word in row})])}
    classes = {label: i for i, label in enumerate(sorted({label for _, label in train}))}
    units, embedding = recipe["model"]["units"], recipe["model"]["embedding"]
    net = text_classifier({"embedding.weight": (len(number), embedding), "rnn.weight_ih_l0": (4 * units, embedding),
                           "rnn.weight_ih_l0_reverse": (4 * units, embedding), "classifier.weight": (len(classes), 2 * units)})
    adam = torch.optim.Adam(net.parameters(), recipe["optimizer"]["lr"])

    def logits(batch):
        words, lengths = padded([[number.get(word, 0) for word in row] for row, _ in batch], 0)
        y, _ = pad_packed_sequence(net.rnn(pack_padded_sequence(net.embedding(words), lengths, enforce_sorted=False))[0])
        return net.classifier(y.sum(0) / lengths[:, None])

    curve = []
    for _ in range(recipe["epochs"]):
        for batch in batches(train, recipe["data"]["batch_size"], draw):
            step(adam, F.cross_entropy(logits(batch), torch.tensor([classes[label] for _, label in batch])))
        with torch.no_grad():
            right = logits(test).argmax(1) == torch.tensor([classes[label] for _, label in test])
        curve.append(100.0 * right.float().mean().item())
    return curve


def translation(seed, folder, recipe, tied):
    import sacrebleu

    torch.manual_seed(seed)
    draw = random.Random(seed)
    train, test = ([[side.split() for side in pair] for pair in table(folder / recipe["data"][part]["table"])]
                   for part in ("train", "validation"))
    known = lambda side: ["<edge>", *sorted({word for pair in train for word in pair[side]})]
    sides = [{word: i for i, word in enumerate(known(side))} for side in (0, 1)]
    words, options = list(sides[1]), recipe["model"]
    net = gnmt(len(sides[0]), len(words), options["embedding"], options["units"],
               [options["encoder_layers"], options["decoder_layers"]], tied)
    adam = torch.optim.Adam(net.parameters(), recipe["optimizer"]["lr"])

    def encoded(batch):
        source, lengths = padded([[sides[0][word] for word in pair[0]] for pair in batch], 0)
        return net.encoder(source, lengths), lengths

    def written():
        """Greedy decoding of the whole batch."""
        memory, lengths = encoded(test)
        read = torch.zeros(1, len(test), dtype=torch.long)
        for _ in range(2 * recipe["data"]["max_length"]):
            scores, _ = net.decoder(read, memory, lengths)
            read = torch.cat([read, scores[-1:].argmax(-1)])
        rows = [[words[i] for i in row] for row in read[1:].T.tolist()]
        return [" ".join(row[:row.index("<edge>")] if "<edge>" in row else row) for row in rows]

    curve = []
    for _ in range(recipe["epochs"]):
        for batch in batches(train, recipe["data"]["batch_size"], draw):
            ids = [[sides[1][word] for word in pair[1]] for pair in batch]
            target, _ = padded([[*row, 0] for row in ids], NO_TARGET)
            read, _ = padded([[0, *row] for row in ids], 0)
            scores, _ = net.decoder(read, *encoded(batch))
            step(adam, F.cross_entropy(scores.flatten(0, 1), target.flatten(), ignore_index=NO_TARGET), recipe["clip_norm"])
        with torch.no_grad():
            curve.append(sacrebleu.corpus_bleu(written(), [[" ".join(pair[1]) for pair in test]]).score)
    return curve
