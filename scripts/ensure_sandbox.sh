#!/bin/sh
# Usage: ensure_sandbox.sh PADDOCK. Makes sure that a sandbox runtime works here: as root, bubblewrap is installed where
# none does; another user is told the line to run. Exits non-zero without one: nothing is ever run outside a sandbox.
set -eu
paddock=$1

if "$paddock" doctor >/dev/null 2>&1; then
    exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "no sandbox runtime works here yet: installing bubblewrap"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends bubblewrap >/dev/null
    "$paddock" doctor
    exit
fi
"$paddock" doctor || true
echo "no sandbox runtime works here; on Debian and Ubuntu: sudo apt-get install bubblewrap" >&2
exit 1
