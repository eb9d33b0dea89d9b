#!/bin/sh
# Make the virtual environment; Debian splits `venv` into a package of its own, which root can install.
set -eu
python=$1
venv=$2
command -v "$python" >/dev/null 2>&1 || { echo "answerkey needs Python 3.11 or newer; '$python' was not found" >&2; exit 2; }
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "answerkey needs Python 3.11 or newer; '$python' is older (set PYTHON=...)" >&2; exit 2; }
if ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    apt-get update -qq && apt-get install -y -qq python3-venv >/dev/null
  else
    echo "Python's venv module is missing: install it first (on Debian: apt-get install python3-venv)" >&2; exit 2
  fi
fi
"$python" -m venv "$venv"
