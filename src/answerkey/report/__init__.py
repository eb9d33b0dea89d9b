"""A run as people read it: the HTML page with its samples and plots."""
