"""Features on top of `evaluate`: audits, which move into a package of their own."""
