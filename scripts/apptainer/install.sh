#!/bin/sh
# Puts a real Apptainer on a Debian 12 machine, for tests of that runtime. Needs root; does nothing where it is there.
#
# Debian has Apptainer in its unstable suite only, built against a newer C library of which it needs two symbols;
# `older_libc.py` points them at what bookworm has. The unstable suite is read through an apt state of its own: the
# machine's package lists and its C library stay as they are. Fails where the package has come to need more than that.
set -eu

if command -v apptainer >/dev/null 2>&1; then
    apptainer --version
    exit 0
fi
export DEBIAN_FRONTEND=noninteractive
here=$(cd "$(dirname "$0")" && pwd)
state=$(mktemp -d /var/tmp/apptainer.XXXXXX)
trap 'rm -rf "$state"' EXIT
chmod 755 "$state"
mkdir -p "$state/lists/partial" "$state/cache/archives/partial" "$state/etc" "$state/package"

mirror=$(sed -n 's/^deb \(\[[^]]*\] \)\?\([^ ]*\) .*/\2/p;s/^URIs: *//p' \
    /etc/apt/sources.list /etc/apt/sources.list.d/*.sources 2>/dev/null | head -n 1)
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
echo "deb [signed-by=$keyring] $mirror sid main" >"$state/etc/sid.list"

unstable() {
    apt-get -o Dir::State::Lists="$state/lists" -o Dir::Cache="$state/cache" -o Dir::Etc::sourcelist="$state/etc/sid.list" \
        -o Dir::Etc::sourceparts=/dev/null -o Dir::State::status=/dev/null \
        -o APT::Sandbox::User=root -o Acquire::Check-Valid-Until=false "$@"
}

apt-get update -qq
unstable update -qq
(cd "$state" && unstable download -qq apptainer)

tree="$state/tree"
dpkg-deb -R "$state"/apptainer_*.deb "$tree"
for program in usr/bin/apptainer usr/lib/x86_64-linux-gnu/apptainer/bin/starter; do
    python3 "$here/older_libc.py" "$tree/$program"
done
version=$(sed -n 's/^Version: //p' "$tree/DEBIAN/control")+bookworm
sed -i -e "s/^Version: .*/Version: $version/" -e '/^\(Static-\)\?Built-Using:/d' \
    -e 's/libc6 (>= [0-9.]*)/libc6 (>= 2.36)/' "$tree/DEBIAN/control"
rm -f "$tree/DEBIAN/md5sums"
dpkg-deb --root-owner-group -Zgzip -z1 -b "$tree" "$state/package/apptainer.deb" >/dev/null

apt-get install -y -qq --no-install-recommends "$state/package/apptainer.deb" >/dev/null
# There may be no systemd; without this every memory limit would fail.
sed -i 's/^systemd cgroups = yes/systemd cgroups = no/' /etc/apptainer/apptainer.conf
apptainer --version
