"""Shell text that makes a repository's git folder anew with HEAD's history alone. Used by `scrub`.

An allow-list: one pack of what HEAD reaches, one branch, an index of HEAD, the few settings that decide how files are
compared. Whatever else the old folder held (refs, tags, stashes, reflogs, notes, replacements, grafts, alternates,
hooks, worktrees, submodules' stores, unreachable and packed objects) is not carried over, so it need not be known.
"""

PRELUDE = r"""
set -eu
user_home=${HOME:-/root}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
printf '%s\n' '[safe]' 'directory = *' '[core]' 'hooksPath = /dev/null' 'fsmonitor = false' '[advice]' \
    'graftFileDeprecated = false' > "$scratch/.gitconfig"
export HOME="$scratch" XDG_CONFIG_HOME="$scratch" LC_ALL=C GIT_CONFIG_NOSYSTEM=1 GIT_TERMINAL_PROMPT=0
export GIT_NO_REPLACE_OBJECTS=1 GIT_GRAFT_FILE=/dev/null GIT_NO_LAZY_FETCH=1
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_NAMESPACE || :
workdir=$(cd "$workdir" && pwd -P)

git_folders() {  # `.git` of the tree and of every tree in it, the deepest first
    find "$workdir" -name .git -prune -print > "$scratch/unsorted" || :
    while IFS= read -r path; do printf '%s\t%s\n' "${#path}" "$path"; done < "$scratch/unsorted" > "$scratch/lengths"
    sort -rn "$scratch/lengths" > "$scratch/sorted"
    cut -f2- "$scratch/sorted" > "$scratch/folders"
    # A tool that does not work here must not look like a tree without history.
    if [ -e "$workdir/.git" ] && ! grep -Fqx -- "$workdir/.git" "$scratch/folders"; then
        echo "$workdir/.git was not found: find or grep does not work here" >&2
        exit 1
    fi
}

repositories() {  # git folders anywhere else
    find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path "$scratch" \) -prune -o -name HEAD -type f -print |
    while IFS= read -r file; do
        folder=${file%/HEAD}
        case "$folder/" in "$workdir"/.git/* | */.git/logs/ | */.git/refs/*) continue ;; esac
        if [ -d "$folder/objects" ] && [ -d "$folder/refs" ]; then printf '%s\n' "$folder"; fi
    done
}

shares_history() {  # $1 a git folder; $marks commits of ours
    for mark in $marks; do
        if git --git-dir="$1" cat-file -e "$mark" 2>/dev/null; then return 0; fi
    done
    return 1
}
"""

REBUILD = r"""
drop() {  # remove a path and what it links to, unless our tree is in it
    for path in "$1" "$(readlink -f -- "$1" || :)"; do
        case "$path" in '' | / | /bin | /etc | /home | /lib | /opt | /root | /sbin | /srv | /tmp | /usr | /var)
            continue ;;
        esac
        case "$workdir/" in "$path"/*) continue ;; esac
        rm -rf -- "$path"
    done
}

companions() {  # other trees of the repository and other object stores that it reads
    main=${common%/.git}
    if [ "$main" != "$common" ] && [ "$main" != "$tree" ]; then printf '%s\n' "$main"; fi
    for link in "$common"/worktrees/*/gitdir; do
        if [ -f "$link" ]; then
            other=$(cat "$link"); other=${other%/.git}
            if [ -f "$other/.git" ] && [ "$other" != "$tree" ]; then printf '%s\n' "$other"; fi
        fi
    done
    stores "$common/objects"
}

stores() {
    if [ -f "$1/info/alternates" ]; then
        while IFS= read -r store; do
            case "$store" in /*) ;; *) store=$1/$store ;; esac
            if [ ! -d "$store" ]; then continue; fi
            (stores "$store")
            if [ -f "$store/../HEAD" ]; then store=$(cd "$store/.." && pwd -P); fi
            printf '%s\n' "$store"
        done < "$1/info/alternates"
    fi
}

one_commit() {  # a commit without parents of HEAD's tree, hidden paths left out
    export GIT_INDEX_FILE="$scratch/index"
    ours read-tree "$head"
    hidden_inside | while IFS= read -r path; do
        ours rm -r -q -f --cached --ignore-unmatch -- ":(literal)$path" >&2
    done
    GIT_AUTHOR_NAME=Paddock GIT_AUTHOR_EMAIL=paddock@localhost GIT_AUTHOR_DATE=2000-01-01T00:00:00+0000 \
    GIT_COMMITTER_NAME=Paddock GIT_COMMITTER_EMAIL=paddock@localhost GIT_COMMITTER_DATE=2000-01-01T00:00:00+0000 \
        ours commit-tree -m base "$(ours write-tree)"
    rm -f "$GIT_INDEX_FILE"; unset GIT_INDEX_FILE
}

ours() { git --git-dir="$tree/.git" --work-tree="$tree" "$@"; }

rebuild() {  # $1 a `.git`, folder or file
    tree=${1%/.git}
    cd "$tree"
    if ! git --git-dir="$1" rev-parse --git-dir > /dev/null 2>&1; then return 0; fi
    common=$(cd "$(git --git-dir="$1" rev-parse --git-common-dir)" && pwd -P)
    head=$(ours rev-parse -q --verify 'HEAD^{commit}' || :)
    branch=$(ours symbolic-ref -q --short HEAD || echo main)
    if [ -n "$head" ]; then
        if [ "$single" = 1 ]; then
            marks="$marks $head $(ours rev-list --max-parents=0 "$head" 2> /dev/null || :)"
            head=$(one_commit)
        else
            marks="$marks $head $(ours rev-list --max-parents=0 "$head")"
        fi
    fi
    new=$tree/.git.new
    rm -rf "$new"
    git init -q --bare --template= --object-format="$(ours rev-parse --show-object-format)" "$new"
    mkdir -p "$new/info"
    git --git-dir="$new" symbolic-ref HEAD "refs/heads/$branch"
    if [ -n "$head" ]; then
        echo "$head" | ours pack-objects -q --revs --delta-base-offset --stdout > "$new/pack"
        git --git-dir="$new" index-pack --stdin < "$new/pack" > /dev/null
        rm "$new/pack"
        if [ "$single" != 1 ] && [ -f "$common/shallow" ]; then
            ours rev-list "$head" | grep -Fx -f "$common/shallow" > "$new/shallow" || rm -f "$new/shallow"
        fi
        git --git-dir="$new" update-ref "refs/heads/$branch" "$head"
    fi
    for key in core.filemode core.autocrlf core.eol core.ignorecase core.symlinks core.safecrlf user.name user.email; do
        value=$(ours config --local --get "$key" || :)
        if [ -n "$value" ]; then git --git-dir="$new" config "$key" "$value"; fi
    done
    for file in info/exclude info/attributes; do
        if [ -f "$common/$file" ]; then cp "$common/$file" "$new/$file"; fi
    done
    git --git-dir="$new" config core.bare false
    companions > "$scratch/companions"
    rm -rf "$tree/.git"
    drop "$common"
    mv "$new" "$tree/.git"
    while IFS= read -r path; do drop "$path"; done < "$scratch/companions"
    if [ -n "$head" ]; then
        ours read-tree HEAD
        ours update-index -q --refresh > /dev/null || :
    fi
}

marks=
git_folders
while IFS= read -r folder; do rebuild "$folder"; done < "$scratch/folders"
cd "$workdir"
if [ -n "$marks" ]; then
    repositories > "$scratch/elsewhere"
    while IFS= read -r folder; do
        if shares_history "$folder"; then drop "$folder"; fi
    done < "$scratch/elsewhere"
fi
"""

CHECK = r"""
found() { printf '%s\n' "$1"; }

check() {  # $1 a `.git`
    ours() { git --git-dir="$folder" --work-tree="${folder%/.git}" "$@"; }
    if [ ! -d "$folder" ]; then found "linked git folder: $folder"; fi
    if ! ours rev-parse -q --verify 'HEAD^{commit}' > /dev/null 2>&1; then
        if ours rev-parse --git-dir > /dev/null 2>&1; then
            ours cat-file --batch-all-objects --batch-check='object without a HEAD: %(objectname) %(objecttype)'
        fi
        return 0
    fi
    marks="$marks $(ours rev-list --max-parents=0 HEAD) $(ours rev-parse HEAD)"
    branch=$(ours symbolic-ref -q HEAD || echo HEAD)
    ours for-each-ref --format='ref: %(refname) %(objectname)' | grep -vF "ref: $branch " || :
    ours rev-list --all --reflog --not HEAD > "$scratch/commits"
    sed 's/^/commit beyond HEAD: /' "$scratch/commits"
    ours rev-list --objects HEAD | cut -d' ' -f1 | sort > "$scratch/reached"
    ours cat-file --batch-all-objects --batch-check='%(objectname)' > "$scratch/objects"
    sort "$scratch/objects" > "$scratch/present"
    comm -13 "$scratch/reached" "$scratch/present" > "$scratch/beyond"
    sed 's/^/object beyond HEAD: /' "$scratch/beyond"
    ours config --local --get-regexp '^(remote|branch|submodule)\.' | sed 's/^/config: /' || :
    git_folder=$(ours rev-parse --absolute-git-dir)
    common=$(cd "${folder%/.git}" && cd "$(ours rev-parse --git-common-dir)" && pwd -P)
    for name in ORIG_HEAD FETCH_HEAD MERGE_HEAD CHERRY_PICK_HEAD REVERT_HEAD REBASE_HEAD AUTO_MERGE BISECT_LOG logs \
        rebase-merge rebase-apply packed-refs objects/info/alternates info/grafts worktrees modules rr-cache \
        lost-found refs/replace refs/notes refs/stash svn lfs; do
        for place in "$git_folder" "$common"; do
            if [ -e "$place/$name" ]; then found "left behind: $place/$name"; break; fi
        done
    done
}

marks=
git_folders
while IFS= read -r folder; do check "$folder"; done < "$scratch/folders"
if [ -n "$marks" ]; then
    repositories > "$scratch/elsewhere"
    while IFS= read -r folder; do
        case "$folder" in "$workdir"/*) continue ;; esac
        if shares_history "$folder"; then found "other repository: $folder"; fi
    done < "$scratch/elsewhere"
fi
"""
