#!/usr/bin/env bash
# Usage: install.sh PYTHON
# Installs this checkout, editable, and all that its tests need into the virtual environment of PYTHON: the versions of
# requirements.lock, each file checked by its hash before it is unpacked, what builds the package included.
set -euo pipefail
cd "$(dirname "$0")/.."
pip=("$1" -m pip --quiet --disable-pip-version-check install --no-deps)
"${pip[@]}" --require-hashes -r requirements.lock
"${pip[@]}" --no-build-isolation -e .
