"""What others published about depth, computed again: one file a study.

    noci.py       what it computes: chunks, and tables made of their arrays; what was published,
                  and whether it holds of these tables; a picture; `NOCI`, an `Experiment` as
                  those of `limitlaw.apps.paper` are

`settings` says how much is computed, `tracing` holds what several studies compute with and `look`
what they are drawn with; `report` lists them and shows what they found. No study
imports another one.
"""
