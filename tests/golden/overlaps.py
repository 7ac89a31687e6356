"""Figures of segmentation by scikit-learn, losses of masks by NumPy: tests/golden/overlaps.h.

    python overlaps.py > overlaps.h    # needs numpy and scikit-learn; the committed overlaps.h was made so

Masks and scores come from the hash of resnet.py, which tests/tasks/segmentation_test.cpp computes too. Everything is in
FP64. A class that is neither there nor predicted has no figure (NaN here); means are over the others.
"""
import numpy as np
import sklearn
from sklearn.metrics import accuracy_score, f1_score, jaccard_score

from resnet import hashed, signed_unit

IGNORE = 255
# Name, images, height, width, classes, the classes that occur and those that are predicted, one pixel in how many is
# ignored (0: none).
CASES = [
    ("eleven classes", 5, 12, 9, 11, list(range(11)), list(range(11)), 7),
    ("a class that is nowhere", 3, 8, 8, 5, [0, 1, 2, 4], [0, 1, 4], 0),
    ("a class that is only predicted", 4, 6, 7, 4, [0, 1], [0, 1, 3], 3),
    ("one class of three", 2, 5, 5, 3, [1], [1], 2),
    ("two classes", 6, 10, 10, 2, [0, 0, 0, 1], [0, 1], 5),
]
THRESHOLDS = 20
# Of the losses: images, height, width, classes; scores are four times the hash.
LOSS = (2, 5, 6, 3)


def drawn(stream, count, among):
    return np.array(among)[hashed(stream, count) % np.uint32(len(among))]


def ignored(stream, count, every):
    return hashed(stream + " ignored", count) % np.uint32(every) == 0 if every else np.zeros(count, bool)


def figures(truth, prediction, classes):
    labels = list(range(classes))
    present = [c for c in labels if (truth == c).any() or (prediction == c).any()]
    def each(score):
        values = score(truth, prediction, labels=present, average=None)
        return [values[present.index(c)] if c in present else np.nan for c in labels]
    iou, dice = each(jaccard_score), each(f1_score)
    assert np.isclose(np.nanmean(iou), jaccard_score(truth, prediction, labels=present, average="macro"))
    return iou, dice, np.nanmean(iou), np.nanmean(dice), accuracy_score(truth, prediction)


def sweep(stream, truth, counts):
    """IoU of the second class where its probability is at least i/20."""
    p = 1 / (1 + np.exp(-4.0 * signed_unit(stream + " scores", truth.size).astype(np.float64)))
    found = []
    for i in range(1, THRESHOLDS):
        taken = p[counts] >= i / THRESHOLDS
        found.append(jaccard_score(truth[counts] == 1, taken))
    return found


def losses():
    images, height, width, classes = LOSS
    pixels = images * height * width
    mask = drawn("loss masks", pixels, range(classes))
    counts = ~ignored("loss", pixels, 6)
    z = 4.0 * signed_unit("loss scores", pixels * classes).astype(np.float64).reshape(pixels, classes)
    log_p = z - z.max(1, keepdims=True)
    log_p -= np.log(np.exp(log_p).sum(1, keepdims=True))
    own = -log_p[np.arange(pixels), mask]
    cross_entropy = own[counts].mean()
    weights = np.array([0.5, 2.0, 3.0])[mask]
    weighted = (weights * own)[counts].sum() / weights[counts].sum()
    p, g = np.exp(log_p)[counts], np.eye(classes)[mask[counts]]
    def dice(p, g, squared, epsilon):
        below = (p * p if squared else p).sum(0) + g.sum(0)
        return 1 - ((2 * (p * g).sum(0) + epsilon) / (below + epsilon)).mean()
    yield "cross_entropy_dice", cross_entropy + dice(p, g, False, 1e-6)
    yield "cross_entropy_dice weighted", 0.25 * weighted + 2 * dice(p, g, True, 1.0)
    yield "cross_entropy_dice without dice", cross_entropy
    # Of two classes: the second against the others, by the first score alone.
    binary, z = mask == 1, z[:, 0]
    bce = (np.logaddexp(0, z) - z * binary)[counts].mean()
    p = 1 / (1 + np.exp(-z))[counts][:, None]
    g = binary[counts].astype(np.float64)[:, None]
    yield "bce_dice", bce + dice(p, g, False, 1e-6)
    yield "bce_dice squared", 0.5 * bce + 3 * dice(p, g, True, 1.0)
    # Left out where the Dice loss is below the limit, and kept where it is not.
    yield "bce_dice of dice alone", dice(p, g, False, 1e-6)


def braced(values):
    return "{" + ", ".join("kNone" if np.isnan(v) else repr(float(v)) for v in values) + "}"


def main():
    print("// Made by overlaps.py; see there.")
    print("#pragma once\n\n#include <limits>\n#include <vector>\n\nnamespace golden {\n")
    print("inline constexpr double kNone = std::numeric_limits<double>::quiet_NaN();\n")
    print("struct OverlapCase {\n  const char* name;\n  int images, height, width, classes;\n"
          "  std::vector<int> truth, predicted;  // what is drawn from\n  int ignored;  // one pixel in so many\n"
          "  std::vector<double> iou, dice;\n  double mean_iou, mean_dice, accuracy;\n};\n")
    print(f"// scikit-learn {sklearn.__version__}, NumPy {np.__version__}.\n// clang-format off")
    print("inline const std::vector<OverlapCase> kOverlapCases = {")
    for name, images, height, width, classes, there, predicted, every in CASES:
        pixels = images * height * width
        truth, prediction = drawn(name + " truth", pixels, there), drawn(name + " predicted", pixels, predicted)
        counts = ~ignored(name, pixels, every)
        iou, dice, mean_iou, mean_dice, accuracy = figures(truth[counts], prediction[counts], classes)
        print(f'    {{"{name}", {images}, {height}, {width}, {classes}, {{{", ".join(map(str, there))}}}, '
              f'{{{", ".join(map(str, predicted))}}}, {every},\n     {braced(iou)},\n     {braced(dice)},\n'
              f'     {mean_iou!r}, {mean_dice!r}, {accuracy!r}}},')
    print("};\n")
    name, images, height, width, _, there, _, every = CASES[-1]
    truth = drawn(name + " truth", images * height * width, there)
    print(f'// Of "{name}", by probabilities of four times the hash.')
    print("inline const std::vector<double> kIouByThreshold = "
          f"{braced(sweep(name, truth, ~ignored(name, truth.size, every)))};\n")
    print(f"inline constexpr int kLossShape[] = {{{', '.join(map(str, LOSS))}}};")
    print("struct MaskLoss {\n  const char* name;\n  double value;\n};")
    print("inline constexpr MaskLoss kMaskLosses[] = {")
    for what, value in losses():
        print(f'    {{"{what}", {value!r}}},')
    print("};\n// clang-format on\n\n}  // namespace golden")


if __name__ == "__main__":
    np.set_printoptions(legacy="1.25")
    main()
