"""Models: built-in ones, endpoints, and code; and how replies are parsed.

`model.open_model` opens a model, `config` says which one is meant, `client` calls it, `responses`
parses its replies. Names are imported from their own modules: most commands call no model.
"""
