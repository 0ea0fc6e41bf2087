#!/usr/bin/env python3
"""The sets of obuchowski.py with scores of a second network: the variance of the difference of both areas, in fractions.

  tests/support/reference/paired_obuchowski.py tests/unit/metrics/paired_numbers.inc

From the same paper: the variance of each area and the covariance of the two are added up separately, where the program adds up
the groups' influences on the difference.
"""
import fractions
import random
import sys

from obuchowski import KINDS, braces, kernel, made_up


class Area:
    """Sums of placements by group: (of its positives, their number), (of its negatives, their number)."""

    def __init__(self, groups, labels, scores):
        rows = list(zip(groups, labels, scores))
        positives = [(g, s) for g, label, s in rows if label == 1]
        negatives = [(g, s) for g, label, s in rows if label == 0]
        self.m, self.n = len(positives), len(negatives)
        self.value = sum(kernel(x, y) for _, x in positives for _, y in negatives) / (self.m * self.n)
        self.known = sorted({g for g, label, _ in rows if label >= 0})
        v10 = [(g, sum(kernel(x, y) for _, y in negatives) / self.n) for g, x in positives]
        v01 = [(g, sum(kernel(x, y) for _, x in positives) / self.m) for g, y in negatives]
        self.x = [(sum(v for h, v in v10 if h == g), sum(h == g for h, _ in v10)) for g in self.known]
        self.y = [(sum(v for h, v in v01 if h == g), sum(h == g for h, _ in v01)) for g in self.known]


def covariance(a, b):
    def mixed(first, second):
        return sum((p - c * a.value) * (q - d * b.value) for (p, c), (q, d) in zip(first, second))
    i = len(a.known)
    i10, i01 = sum(c > 0 for _, c in a.x), sum(c > 0 for _, c in a.y)
    s10 = fractions.Fraction(i10, (i10 - 1) * a.m) * mixed(a.x, b.x)
    s01 = fractions.Fraction(i01, (i01 - 1) * a.n) * mixed(a.y, b.y)
    s11 = fractions.Fraction(i, i - 1)
    return s10 / a.m + s01 / a.n + s11 * (mixed(a.x, b.y) + mixed(a.y, b.x)) / (a.m * a.n)


def main():
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        out.write("// Written by tests/support/reference/paired_obuchowski.py: kind, groups, labels, scores of A and B, areas of A and B, "
                  "variance of the difference. Do not edit.\n")
        for number, kind in enumerate(KINDS):
            rng = random.Random(1988 + number)
            groups, labels, first = zip(*made_up(kind, rng))
            second = [max(0, min(20, round(0.6 * score + 4 + max(0, label) + rng.gauss(0, 2)))) for label, score in zip(labels, first)]
            a, b = Area(groups, labels, first), Area(groups, labels, second)
            figures = (a.value, b.value, covariance(a, a) + covariance(b, b) - 2 * covariance(a, b))
            columns = ",\n ".join(map(braces, (groups, labels, first, second)))
            out.write(f'{{"{kind}",\n {columns},\n {", ".join(repr(float(figure)) for figure in figures)}}},\n')


if __name__ == "__main__":
    main()
