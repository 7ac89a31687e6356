"""Values of the statistics of a comparison, from SciPy and statsmodels.

python statistics_reference.py > statistics_reference.h   (SciPy 1.17, statsmodels 0.14; the committed header was made so)
"""
import math

import numpy as np
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.weightstats import DescrStatsW

PAIRS = [  # arm, baseline, margin
    ([92.91, 92.75, 93.10, 92.60, 92.88], [92.80, 92.84, 93.02, 92.71, 92.79], 0.5),
    ([92.91, 92.75, 93.10, 92.60, 92.88, 93.3, 92.2], [93.80, 93.84, 94.02, 93.71, 93.79, 94.5, 93.0], 0.5),
    ([1.25, 1.5, 1.125, 2.25, 1.75, 1.0], [1.0, 2.5, 0.125, 2.0, 3.75, 0.5], 0.3),
    ([91.0, 92.0], [91.5, 91.75], 1.0),
]
HOLM = [[0.01, 0.04, 0.03, 0.005], [0.5, 0.02], [0.9, 0.8, 0.7], [0.012, 0.012, 0.4]]


def number(x):
    return "kNaN" if math.isnan(x) else repr(float(x))


def braces(values):
    return "{" + ", ".join(number(v) for v in values) + "}"


def paired(arm, base, margin):
    d = np.array(arm) - np.array(base)
    n, description = len(d), DescrStatsW(d)
    low, high = description.tconfint_mean(alpha=0.1)
    above = lambda bound: description.ttest_mean(bound, alternative="larger")[1]
    below = lambda bound: description.ttest_mean(bound, alternative="smaller")[1]
    error = d.std(ddof=1) / math.sqrt(n)
    detectable = (stats.t.ppf(0.95, n - 1) + stats.t.ppf(0.9, n - 1)) * error
    return [d.mean(), d.std(ddof=1), low, high, max(above(-margin), below(margin)), min(above(margin), below(-margin)),
            above(0), below(0), stats.pearsonr(arm, base)[0], detectable]


print("// Made by statistics_reference.py; see there.")
print("// clang-format off")
print("#pragma once\n\n#include <limits>\n#include <vector>\n")
print("namespace reference {\n")
print("inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();\n")
print("struct T { double x, df, value; };")
print("inline const std::vector<T> kCdf = {")
for df in (1, 2, 4, 9, 29, 1000):
    for t in (-40.0, -6.0, -2.132, -0.1, 0.0, 0.5, 1.96, 12.0):
        print(f"    {{{t}, {df}, {number(stats.t.cdf(t, df))}}},")
print("};\ninline const std::vector<T> kQuantile = {")
for df in (1, 4, 9, 29, 1000):
    for p in (0.001, 0.05, 0.4, 0.5, 0.8, 0.9, 0.95, 0.975, 0.9999):
        print(f"    {{{p}, {df}, {number(stats.t.ppf(p, df))}}},")
print("};\n")
print("struct Paired { std::vector<double> arm, baseline; double margin; std::vector<double> values; };")
print("// delta, sd, low, high, p_equivalent, p_different, p_above, p_below, correlation, detectable")
print("inline const std::vector<Paired> kPaired = {")
for arm, base, margin in PAIRS:
    print(f"    {{{braces(arm)}, {braces(base)}, {margin}, {braces(paired(arm, base, margin))}}},")
print("};\n\nstruct Holm { std::vector<double> p, adjusted; };")
print("inline const std::vector<Holm> kHolm = {")
for p in HOLM:
    print(f"    {{{braces(p)}, {braces(multipletests(p, method='holm')[1])}}},")
print("};\n\n}  // namespace reference")
