"""The settings of a reproduction; the paper's counts by default."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Settings:
    """Counts of one reproduction of the paper.

    `trials` and `samples` are those of the paper's estimator; figure 5 takes twice as many
    samples. `blocks` of `draws` each, in four independent parts, are what exact divergences are
    averaged over; `averages` are the draws for Theorem 3.1.
    """

    seed: int = 0
    trials: int = 10
    samples: int = 50_000
    tokens: int = 16
    blocks: int = 16
    draws: int = 2**15
    averages: int = 20_000
    quick: bool = False

    @staticmethod
    def of(
        quick: bool,
        seed: int = 0,
        trials: int | None = None,
        samples: int | None = None,
        tokens: int | None = None,
    ) -> "Settings":
        """The paper's counts, or those for a first look; numbers that are given replace both."""
        base = Settings(seed=seed)
        if quick:
            base = Settings(seed, 2, 5_000, 16, blocks=3, draws=2**12, averages=2_000, quick=True)
        return dataclasses.replace(
            base,
            trials=base.trials if trials is None else trials,
            samples=base.samples if samples is None else samples,
            tokens=base.tokens if tokens is None else tokens,
        )

    def described(self) -> dict[str, int]:
        """The counts by what they mean, for a reader of the report."""
        return {
            "seed": self.seed,
            "trials of the paper's estimator": self.trials,
            "samples of a trial (figure 5: twice as many)": self.samples,
            "tokens of figure 4": self.tokens,
            "blocks of an exact divergence, each of four independent parts": self.blocks,
            "coupled draws in a block (fewer with many heads)": self.draws,
            "draws of the averages of Theorem 3.1": self.averages,
        }
