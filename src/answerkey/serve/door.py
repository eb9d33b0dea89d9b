"""What a browser shows that comes without the token: it says so, or goes on where the token is still known.

The page takes the token out of the address bar, so that it is in no bookmark and on no screenshot. When such
an address is opened again, a token that this browser keeps for this very server opens it; nothing else does.
"""

from __future__ import annotations

from answerkey.reports.pages.skeleton import hash_source

STYLE = """\
:root { color-scheme: light dark; font: 1rem/1.6 system-ui, sans-serif }
body { max-width: 34rem; margin: 15vh auto; padding: 0 1.5rem }
code { font-family: ui-monospace, monospace }"""
SCRIPT = """\
"use strict";
const name = "answerkey-token";
const given = new URLSearchParams(location.search).has("token");
try {
  const kept = localStorage.getItem(name);
  if (given) localStorage.removeItem(name);
  else if (kept) location.replace("/?token=" + encodeURIComponent(kept) + location.hash);
} catch (error) {
  document.documentElement.dataset.storage = "closed";
}"""
DOOR = f"""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>answerkey: no token</title>
<style>{STYLE}</style>
</head>
<body>
<main>
<h1>This address lacks the token</h1>
<p>Runs are shown only to who has the whole address that <code>answerkey view</code> printed, with the token
at its end. Each start has a token of its own.</p>
</main>
<script>{SCRIPT}</script>
</body>
</html>
"""
DOOR_POLICY = (
    f"default-src 'none'; script-src '{hash_source(SCRIPT)}'; style-src '{hash_source(STYLE)}'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
