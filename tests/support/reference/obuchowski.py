#!/usr/bin/env python3
"""Ten small sets of scores in groups, with their AUROC and its clustered variance, by the definition and in fractions.

  tests/support/reference/obuchowski.py tests/unit/metrics/obuchowski_numbers.inc

Written from the paper alone (Obuchowski, "Nonparametric analysis of clustered ROC curve data", Biometrics 53:567-578, 1997,
equations 1 to 8): each pair of a positive and a negative is compared, nothing is sorted, nothing is rounded until the end.
`apart` is the mean over the pairs of different groups.
"""
import fractions
import random
import sys

KINDS = ("by group", "by sample", "both", "ties", "one large", "unknown", "singles", "rare", "all mixed", "few scores")


def made_up(kind, rng):
    """Rows (group, label, score): label -1 = unknown; scores in twentieths, so that there are ties."""
    rows = []
    for group in range(rng.randint(12, 18)):
        size = 1 if kind == "singles" else rng.randint(2, 6)
        if kind == "one large" and group == 3:
            size = 25
        alike = rng.gauss(0, 4)
        ill = rng.random() < (0.2 if kind == "rare" else 0.5) or group == 0
        for number in range(size):
            label = int(ill) if kind in ("by group", "singles", "rare", "one large") else int(rng.random() < 0.5)
            if kind == "both" and rng.random() < 0.5:
                label = int(ill)
            if kind == "all mixed" and number < 2:
                label = number
            if kind == "unknown" and rng.random() < 0.3:
                label = -1
            spread = 1 if kind in ("ties", "few scores") else 4
            score = round(10 + alike * (0.2 if kind == "few scores" else 1) + 3 * label + rng.gauss(0, spread))
            rows.append((group, label, max(0, min(20, score))))
    return rows


def kernel(x, y):
    return fractions.Fraction(1 if x > y else 0) + fractions.Fraction(1 if x == y else 0, 2)


def judge(rows):
    positives = [(group, score) for group, label, score in rows if label == 1]
    negatives = [(group, score) for group, label, score in rows if label == 0]
    m, n = len(positives), len(negatives)
    area = sum(kernel(x, y) for _, x in positives for _, y in negatives) / (m * n)
    between = [kernel(x, y) for g, x in positives for h, y in negatives if g != h]
    v10 = [(g, sum(kernel(x, y) for _, y in negatives) / n) for g, x in positives]
    v01 = [(g, sum(kernel(x, y) for _, x in positives) / m) for g, y in negatives]
    known = sorted({group for group, label, _ in rows if label >= 0})
    x_sums = {g: (sum(v for h, v in v10 if h == g), sum(h == g for h, _ in v10)) for g in known}
    y_sums = {g: (sum(v for h, v in v01 if h == g), sum(h == g for h, _ in v01)) for g in known}
    i, i10, i01 = len(known), sum(c > 0 for _, c in x_sums.values()), sum(c > 0 for _, c in y_sums.values())
    s10 = fractions.Fraction(i10, (i10 - 1) * m) * sum((v - c * area) ** 2 for v, c in x_sums.values())
    s01 = fractions.Fraction(i01, (i01 - 1) * n) * sum((v - c * area) ** 2 for v, c in y_sums.values())
    s11 = fractions.Fraction(i, i - 1) * sum((x_sums[g][0] - x_sums[g][1] * area) * (y_sums[g][0] - y_sums[g][1] * area) for g in known)
    return area, s10 / m + s01 / n + 2 * s11 / (m * n), sum(between) / len(between)


def braces(values):
    return "{" + ", ".join(map(str, values)) + "}"


def main():
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        out.write("// Written by tests/support/reference/obuchowski.py: kind, groups, labels, scores, area, variance, area apart. Do not edit.\n")
        for number, kind in enumerate(KINDS):
            rows = made_up(kind, random.Random(1997 + number))
            columns = [braces(column) for column in zip(*rows)]
            figures = ", ".join(repr(float(figure)) for figure in judge(rows))
            out.write(f'{{"{kind}",\n {columns[0]},\n {columns[1]},\n {columns[2]},\n {figures}}},\n')


if __name__ == "__main__":
    main()
