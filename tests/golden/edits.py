"""Error rates by jiwer and editdistance: tests/golden/edits.h.

    python edits.py > edits.h    # needs jiwer and editdistance; the committed edits.h was made so

Numbers of errors are those of both libraries, rates those of jiwer. How many of the errors are substitutions depends on the
alignment; here as in Tandem it is the one with most of them, found by trying all.
"""
from functools import lru_cache
from importlib.metadata import version

import editdistance
import jiwer

from drawn import Hash

PAIRS = 120


def sequences(i):
    """Few symbols, so that many alignments are equally short; some hypotheses are their reference, changed."""
    draw = Hash(i)
    symbols = 2 + i % 5
    reference, hypothesis = ([draw.below(symbols) for _ in range(draw.below(13))] for _ in range(2))
    if i % 3 == 0:
        cut, kept = draw.below(len(reference) + 1), draw.below(len(reference) + 1)
        hypothesis = reference[:cut] + hypothesis[:2] + reference[kept:]
    return reference, hypothesis


def most_substitutions(reference, hypothesis):
    @lru_cache(None)
    def best(r, h):
        """Errors and, negative, substitutions."""
        if r == 0 or h == 0:
            return (r + h, 0)
        e, s = best(r - 1, h - 1)
        same = reference[r - 1] == hypothesis[h - 1]
        others = [(e + 1, s) for e, s in (best(r - 1, h), best(r, h - 1))]
        return min((e, s) if same else (e + 1, s - 1), *others)

    return best(len(reference), len(hypothesis))


def text(sequence):
    return " ".join(f"w{v}" for v in sequence)


def row(i):
    reference, hypothesis = sequences(i)
    errors, negative = most_substitutions(tuple(reference), tuple(hypothesis))
    assert errors == editdistance.eval(reference, hypothesis)
    if reference:
        found = jiwer.process_words(text(reference), text(hypothesis))
        assert errors == found.substitutions + found.deletions + found.insertions
        assert -negative >= found.substitutions
    others = errors + negative
    longer = len(hypothesis) - len(reference)
    digits = lambda sequence: '"' + "".join(map(str, sequence)) + '"'
    return f"    {{{digits(reference)}, {digits(hypothesis)}, {-negative}, {(others - longer) // 2}, {(others + longer) // 2}}},"


def main():
    pairs = [pair for pair in map(sequences, range(PAIRS)) if pair[0]]
    rate = jiwer.wer([text(r) for r, _ in pairs], [text(h) for _, h in pairs])
    print("// Made by edits.py; see there.\n#pragma once\n\nnamespace golden {\n")
    print("// Symbols are digits.\nstruct EditsCase {\n  const char *reference, *hypothesis;\n"
          "  int substitutions, deletions, insertions;\n};\n")
    print(f"// jiwer {version('jiwer')}, editdistance {version('editdistance')}.\n// clang-format off")
    print("inline constexpr EditsCase kEditsCases[] = {")
    for i in range(PAIRS):
        print(row(i))
    print("};\n// clang-format on\n")
    print("// Of the corpus of those whose reference is not empty.")
    print(f"inline constexpr double kWordErrorRate = {rate!r};\n\n}}  // namespace golden")


if __name__ == "__main__":
    main()
