"""Who answers: built-in models, models behind an endpoint, and how any reply is read.

`model.open_model` opens one, `config` says which is meant, `client` calls it, `responses` reads
what it says. Names are imported from the module of their subject: most commands call no model.
"""
