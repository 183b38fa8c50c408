#!/usr/bin/env bash
# Usage: bare_root.sh FOLDER COMMAND
# Runs a shell command in a fresh clone of this checkout's commit on a bare Debian 12: a root file system that holds what
# the README asks for (git, make, python3-venv) and nothing else, with this machine's network and the certificates that it
# trusts. FOLDER keeps that system between runs; each run works on a copy, so that what one installs no other has. What the
# command leaves in /out is in FOLDER/out.
# Needs root and debootstrap.
set -euo pipefail
folder=$1
command=$2
here=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

if [ ! -d "$folder/debian" ]; then
    rm -rf "$folder/unfinished"
    debootstrap --variant=minbase --include=git,make,python3-venv bookworm "$folder/unfinished" >/dev/null
    mkdir -p "$folder/unfinished/etc/ssl/certs"
    mv "$folder/unfinished" "$folder/debian"
fi
root=$folder/root
rm -rf "$root" "$folder/out"
trap 'rm -rf "$root"' EXIT
cp -a --reflink=auto "$folder/debian" "$root"
git clone -q "$here" "$root/paddock"
mkdir "$folder/out" "$root/out"
# What pip was told about certificates; all else of this machine's environment stays outside.
variables=()
for name in PIP_CERT SSL_CERT_FILE REQUESTS_CA_BUNDLE; do
    [ -z "${!name:-}" ] || variables+=("$name=${!name}")
done
# The root of a mount namespace, not chroot's: sandboxes in it make user namespaces, which a chroot may not.
enter='
    root=$1
    mount --rbind "$root" "$root"
    mount --bind "$2" "$root/out"
    mount -t proc proc "$root/proc"
    # Not the cgroups of this machine: their owners are processes that cannot be seen from inside.
    mount -t sysfs sysfs "$root/sys"
    mount --rbind /dev "$root/dev"
    for name in /etc/ssl/certs /etc/resolv.conf /etc/hosts; do
        [ -e "$root$name" ] || touch "$root$name"
        mount --bind "$name" "$root$name"
    done
    cd "$root"
    mkdir -p outside
    pivot_root . outside
    cd /paddock
    umount -l /outside
    shift 2
    exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root CI=true "$@"
'
unshare --mount --pid --fork --kill-child --propagation private bash -euc "$enter" enter "$root" "$folder/out" "${variables[@]}" bash -c "$command"
