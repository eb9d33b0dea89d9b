"""Views over finished runs: plain values and lines of text. Only `cli` prints them."""
