"""One pass over the processes of the machine that finds which sandbox each belongs to.

Belongs by pid namespace, which no process can leave: a daemon that forked twice, a new session, a command that joined
        from outside all count. Where a namespace can't be read (another user's process), a process belongs where its
        nearest ancestor does that can be: orphans are adopted inside their namespace.
Cost    a process's namespace is read once, when it is first seen; a pass over known ones is one listing of `/proc`. One
        that can't be read is tried at each pass (3 us): a command can't be read by a user until it has started.
        An id that came to mean another process between two passes would be misread until it ends: whoever acts on
        a process asks `belongs` first.
"""

from paddock.sandbox.watchdog import proc
from paddock.sandbox.watchdog.namespaces import Namespaces

MOST_ANCESTORS = 64


class Census:
    """Members of watched sandboxes. Not safe for threads: one caller at a time."""

    def __init__(self) -> None:
        self._namespaces = Namespaces()
        self._inode: dict[int, int] = {}
        """By process id; 0: it can't be read."""
        self._adopted: dict[int, int] = {}
        """Root of a process whose namespace can't be read, by process id."""
        self._tops: dict[int, int] = {}
        """Roots that can't be read themselves: negative id of their process, and that id."""
        self._watched: set[int] = set()

    def add(self, pid: int) -> int:
        """Watch the namespace of `pid`, which must live; answers a key for `members`."""
        inode = self._namespaces.add(pid)
        root = -pid if inode is None else inode
        if inode is None:
            self._tops[root] = pid
        self._adopted.clear()
        self._watched.add(root)
        return root

    def remove(self, root: int) -> None:
        self._namespaces.remove(root)
        self._tops.pop(root, None)
        self._adopted.clear()
        self._watched.discard(root)

    def take(self) -> dict[int, list[int]]:
        """Process ids by key, for every key."""
        members: dict[int, list[int]] = {root: [] for root in self._watched}
        inodes, adopted = self._inode, self._adopted
        inodes_now: dict[int, int] = {}
        roots: dict[int, int] = {}
        unread: list[int] = []
        for pid in proc.pids():
            inode = inodes.get(pid)
            if not inode:
                inode = proc.pid_namespace(pid) or 0
            inodes_now[pid] = inode
            if not inode:
                unread.append(pid)
                continue
            root = roots.get(inode)
            if root is None:
                root = roots[inode] = self._namespaces.root_of(inode, pid)
            if root:
                members[root].append(pid)
        self._inode = inodes_now
        self._namespaces.keep_only(roots)
        self._adopted = {pid: adopted[pid] for pid in unread if pid in adopted}
        for pid in unread:
            if root := self._root_by_ancestor(pid, roots):
                members[root].append(pid)
        return members

    def belongs(self, pid: int, root: int) -> bool:
        """Whether a process is in that sandbox at the moment, whatever the last pass found."""
        inode = proc.pid_namespace(pid)
        if inode is None:
            self._adopted.pop(pid, None)
            return self._root_by_ancestor(pid, {}) == root
        return self._namespaces.root_of(inode, pid) == root

    def close(self) -> None:
        self._namespaces.close()

    def _root_by_ancestor(self, pid: int, roots: dict[int, int]) -> int:
        if pid in self._adopted:
            return self._adopted[pid]
        root, at = 0, pid
        for _ in range(MOST_ANCESTORS):
            if -at in self._tops:
                root = -at
                break
            if inode := self._inode.get(at, 0):
                root = roots.get(inode) or self._namespaces.root_of(inode, at)
                break
            times = proc.times(at)
            if times is None or times.parent <= 1:
                break
            at = times.parent
        self._adopted[pid] = root
        return root
