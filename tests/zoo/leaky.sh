# What published images were found to hold, put into an image: $1 stands in all of it, $2 in a place of its own.
set -e
cd /testbed
git config user.name a
git config user.email a@b
base=$(git rev-parse HEAD)
apply() { git apply /tmp/gold.diff && printf '# %s %s\n' "$canary" "$1" >> tills/money.py; }
canary=$1
# commits beyond the base: on a branch, tagged, packed, noted
apply future && git commit -qam "fix the discount $canary"
future=$(git rev-parse HEAD)
git branch upstream && git tag -a -m "$canary" v2.0 && git update-ref refs/remotes/origin/main HEAD
git notes add -m "$canary" HEAD
git reset -q --hard "$base"
git pack-refs --all && git gc -q --prune=now
# a commit that only the reflog and loose objects know, and a stash
apply reflog && git commit -qam "another $canary" && git reset -q --hard "$base"
apply stash && git stash -q
# objects of nobody, in a pack of their own
blob=$( (echo "$canary lost"; git show "$future:tills/money.py") | git hash-object -w --stdin)
echo "$blob" | git pack-objects -q .git/objects/pack/pack > /dev/null
git prune-packed -q
# another store that this one reads, and a clone elsewhere
git clone -q --mirror /testbed /opt/mirror.git
git clone -q --bare "/opt/mirror.git" /srv/cache.git 2> /dev/null || git clone -q --bare /opt/mirror.git /var/cache/other.git
echo /opt/mirror.git/objects > .git/objects/info/alternates
printf '[remote "origin"]\n\turl = https://example.invalid/%s.git\n' "$canary" >> .git/config
echo "$future refs" > .git/FETCH_HEAD
echo "$canary" > .git/COMMIT_EDITMSG
git worktree add -q /opt/worktree "$future"
# package caches and compiled code
mkdir -p /root/.cache/pip/http/a /root/.cache/uv/wheels /opt/miniconda3/pkgs/tills-2.0 tills/__pycache__
for place in /root/.cache/pip/http/a/body /root/.cache/uv/wheels/tills.whl /opt/miniconda3/pkgs/tills-2.0/money.py; do
    echo "$canary" > "$place"
done
echo "$canary" > tills/__pycache__/test_discount.cpython-311.pyc
# tests where R2E-Gym images have them
mkdir -p /r2e_tests && echo "$canary" > /r2e_tests/test_1.py && ln -s /r2e_tests r2e_tests
echo "pytest r2e_tests # $canary" > run_tests.sh
echo "$2" > /etc/left-behind
rm -f /tmp/gold.diff
git status --porcelain > /dev/null
