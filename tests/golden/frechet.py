"""Fréchet distances between sets of features, by SciPy: tests/golden/frechet.h.

    python frechet.py > frechet.h    # needs numpy and scipy; the committed frechet.h was made so

Features come from the hash of resnet.py, which tests/tasks/frechet_test.cpp computes too. The trace of the root of the
product is a nuclear norm: with Σ = AᵀA, tr (Σ₁Σ₂)^½ = ‖A₁A₂ᵀ‖, which holds for singular covariances too and has no square
root of a matrix in it. Where covariances are regular, SciPy's square root of their product has to agree.
"""
import numpy as np
import scipy
from scipy.linalg import sqrtm

from resnet import signed_unit

# Name, rows of either set, features, what the second is multiplied by (a power of two) and moved by, where both lie.
CASES = [
    ("alike", 500, 400, 8, 1.0, 0.0, 0.0),
    ("moved", 60, 50, 6, 1.0, 0.5, 0.0),
    ("wider", 300, 300, 16, 4.0, -1.0, 0.0),
    ("far from the origin", 64, 64, 5, 1.0, 0.0, 10000.0),
    ("fewer rows than features", 9, 7, 24, 2.0, 0.25, 0.0),
    ("one row", 1, 40, 3, 1.0, 0.0, 0.0),
]


def features(stream, rows, columns):
    """Correlated, and rectified as penultimate features are."""
    x = signed_unit(stream, rows * columns).reshape(rows, columns)
    x[:, 1:] = np.float32(0.5) * x[:, 1:] + np.float32(0.5) * x[:, :-1]
    return np.maximum(x, np.float32(-0.25))


def distance(x, y):
    x, y = x.astype(np.float64), y.astype(np.float64)
    a, b = (v - v.mean(0) for v in (x, y))
    a, b = a / np.sqrt(max(len(x) - 1, 1)), b / np.sqrt(max(len(y) - 1, 1))
    apart = ((x.mean(0) - y.mean(0)) ** 2).sum()
    result = apart + (a**2).sum() + (b**2).sum() - 2 * np.linalg.svd(a @ b.T, compute_uv=False).sum()
    if min(len(x), len(y)) > 2 * x.shape[1]:
        c, d = np.cov(x, rowvar=False), np.cov(y, rowvar=False)
        check = apart + np.trace(c + d - 2 * sqrtm(c @ d).real)
        assert abs(check - result) < 1e-9 * max(1, apart), (check, result)
    return result


def main():
    known = [((0, 0), [[1, 0.5], [0.5, 2]]), ((1, -1), [[2, 0], [0, 1]])]
    (m, c), (n, d) = [(np.array(mean), np.array(covariance)) for mean, covariance in known]
    value = ((m - n) ** 2).sum() + np.trace(c + d - 2 * sqrtm(c @ d).real)
    print("// Made by frechet.py; see there.")
    print("#pragma once\n\nnamespace golden {\n")
    print("struct FrechetCase {\n  const char* name;\n  int rows1, rows2, features;\n"
          "  float factor, shift;  // of the second set\n  float origin;         // of both\n  double distance;\n};\n")
    print(f"// SciPy {scipy.__version__}, NumPy {np.__version__}.\n// clang-format off")
    print("inline constexpr FrechetCase kFrechetCases[] = {")
    for name, n1, n2, columns, factor, shift, origin in CASES:
        x = features(name + " 1", n1, columns) + np.float32(origin)
        y = np.float32(factor) * features(name + " 2", n2, columns) + np.float32(shift) + np.float32(origin)
        print(f'    {{"{name}", {n1}, {n2}, {columns}, {factor}f, {shift}f, {origin}f, {distance(x, y)!r}}},')
    print("};\n// clang-format on\n")
    print("// Between (0, 0), [[1, .5], [.5, 2]] and (1, -1), diag(2, 1).")
    print(f"inline constexpr double kFrechetOfTwo = {value!r};\n\n}}  // namespace golden")


if __name__ == "__main__":
    np.set_printoptions(legacy="1.25")
    main()
