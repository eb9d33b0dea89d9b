"""Files become Samples with stable ids and a fingerprint; recorded completions become Completions.

`dataset` opens one, `sources` says where files lie, `tables` reads them, `recorded` joins
completions to it. Names are imported from the module of their subject: showing a run reads no
dataset.
"""
