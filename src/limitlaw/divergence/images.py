"""Images of two laws under one function."""

from limitlaw.laws import Law, Pushforward


def arguments(p: Law, q: Law) -> tuple[Law, Law]:
    """The laws of X and Z for p and q of φ(X) and φ(Z), φ rising and one to one; else p and q themselves.

    KL, total variation and Kolmogorov distance are the same for both pairs, and where φ saturates, only the arguments
    can be told apart in floating point.
    """
    if not isinstance(p, Pushforward) or not isinstance(q, Pushforward):
        return p, q
    same = p.phi == q.phi and p._named is not None and p._named.injective
    return (p.base, q.base) if same else (p, q)
