#!/usr/bin/env bash
# Usage: run_tests.sh PYTEST [ARGUMENT...]
# Runs tests in WORKERS processes at once (3: more than two cores, because many tests wait), shared out as DIST says to
# xdist (worksteal), and what failed once more, alone, in one process: to tell whether it is wrong by itself or loses a
# race beside others (FLAKY). It has failed either way. Nothing is tried again where pytest itself failed or where more
# than MOST tests did.
set -euo pipefail
MOST=15
pytest=$1
shift
# Hundreds of processes would each compile all that they import.
unset PYTHONDONTWRITEBYTECODE
cache=$(mktemp -d)
trap 'rm -rf "$cache"' EXIT
failed=$cache/v/cache/lastfailed
# None is installed: each of these processes would look for them in all that is.
export PYDANTIC_DISABLE_PLUGINS=__all__

status=0
"$pytest" -n "${WORKERS:-3}" --dist "${DIST:-worksteal}" --durations 40 --durations-min 5 -o "cache_dir=$cache" "$@" || status=$?
if [ "$status" -ne 1 ] || [ ! -s "$failed" ]; then
    exit "$status"
fi
names=$(sed -n 's/^  "\(.*\)": true,\{0,1\}$/\1/p' "$failed")
count=$(wc -l <<<"$names")
if [ "$count" -gt "$MOST" ]; then
    echo "run_tests: $count tests failed: that is no accident" >&2
    exit 1
fi

echo "== alone: $count that failed"
status=0
"$pytest" -p no:xdist -o "cache_dir=$cache" --last-failed --last-failed-no-failures none \
    --junitxml "$cache/alone.xml" "$@" --assert=rewrite || status=$?
if [ "$status" -ne 0 ]; then
    exit "$status"
fi
if [ "$(cat "$failed")" != "{}" ] || ! grep -q 'skipped="0"' "$cache/alone.xml"; then
    echo "run_tests: not all that failed was run alone" >&2
    exit 1
fi
sed 's/^/FLAKY: failed beside others, passed when run alone: /' <<<"$names"
exit 1
