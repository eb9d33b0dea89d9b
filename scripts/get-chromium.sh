#!/bin/sh
# Have a Chromium for the browser tests; root can install Debian's. Without one they are skipped, and say so.
set -eu
if [ -n "${ANSWERKEY_CHROMIUM:-}" ]; then exit 0; fi
for name in chromium chromium-browser google-chrome; do
  if command -v "$name" >/dev/null 2>&1; then exit 0; fi
done
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
  echo "Installing Chromium for the browser tests (only the first time) ..."
  export DEBIAN_FRONTEND=noninteractive
  # A page without a font is a page of boxes: Chromium only recommends one.
  if apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null; then
    exit 0
  fi
  echo "Chromium could not be installed from the system's packages: the browser tests will be skipped" >&2
  exit 0
fi
echo "No Chromium, and no way to install one here: the browser tests will be skipped" >&2
echo "(on Debian: apt-get install chromium; elsewhere set ANSWERKEY_CHROMIUM to the program)" >&2
