#!/bin/sh
# Have a Chromium for the browser tests; root can install Debian's. Without one they are skipped, and say so.
set -eu
if [ -n "${ANSWERKEY_CHROMIUM:-}" ]; then exit 0; fi
for name in chromium-headless-shell chromium chromium-browser google-chrome; do
  if command -v "$name" >/dev/null 2>&1; then exit 0; fi
done
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
  echo "Installing Chromium for the browser tests (only the first time) ..."
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq || true
  # The shell without windows takes a third less time. A page without a font is a page of boxes: Chromium only
  # recommends one.
  for name in chromium-headless-shell chromium; do
    if apt-get install -y -qq --no-install-recommends "$name" fonts-dejavu-core >/dev/null; then exit 0; fi
  done
  echo "Chromium could not be installed from the system's packages: the browser tests will be skipped" >&2
  exit 0
fi
echo "No Chromium, and no way to install one here: the browser tests will be skipped" >&2
echo "(on Debian: apt-get install chromium; elsewhere set ANSWERKEY_CHROMIUM to the program)" >&2
