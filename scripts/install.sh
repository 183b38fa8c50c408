#!/usr/bin/env bash
# Usage: install.sh PYTHON
# Installs this checkout, editable, and all that its tests need into the virtual environment of PYTHON: the versions of
# requirements.lock, each file checked by its hash before it is unpacked, what builds the package included.
set -euo pipefail
cd "$(dirname "$0")/.."
pip=("$1" -m pip --quiet --disable-pip-version-check install --no-deps --no-compile)
"${pip[@]}" --require-hashes -r requirements.lock
"${pip[@]}" --no-build-isolation -e .
# On all cores, of which pip would use one for half a minute. What is no Python of this version nobody imports.
"$1" -m compileall -qq -j 0 "$("$1" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" || true
