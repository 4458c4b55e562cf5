"""Published results on depth, computed again: one file for each study.

    noci.py       what it computes: chunks, and tables made of their arrays; what was published,
                  and whether it holds of these tables; a picture; `NOCI`, an `Experiment` as
                  those of `limitlaw.apps.paper` are

`settings` says how much is computed, `tracing` and `look` hold what several studies share in
computing and in drawing; `report` lists them and shows what they found. No study imports another
one.
"""
