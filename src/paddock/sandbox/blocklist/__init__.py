"""The command blocklist: advice to the model about commands that lead nowhere in a sandbox. Isolation is the boundary.

Law     a line is refused for what it would run, never for what stands in its text: it is parsed (`commands`), each
        command's words are parsed too (`arguments`), rules are data (`rules.yaml`). What does not parse is judged by
        its tokens. Lines typed into a running program are judged as lines for a shell.
Choices `kill` of a literal id, a job, `$!`, a variable that the line does not set, and of what `cat` or `jobs` print
        passes; ids that a search yields, 0, 1, literal negative ones, `$$` and `$PPID` do not. Commits may be read by
        hash (only HEAD's past has any), not checked out. What cannot be told from the line (`curl "$URL"`) passes.
Limits  only what the line itself spells out is found. The rest, which only isolation stops: encoded or computed text
        that is run later (`base64 -d | sh`, `$(printf pki)ll`), programs in other languages (`awk` with `system`,
        `python -c "os.kill(...)"`), scripts on disk, names that another line or a file gives (`$x`, `git pull` in a
        Makefile), patterns for program names (`/usr/bin/pk?ll`), copies and links under another name, keystrokes to a
        terminal multiplexer.
"""

from paddock.sandbox.blocklist.arguments import ProgramProfile
from paddock.sandbox.blocklist.blocklist import Blocklist, Refusal
from paddock.sandbox.blocklist.rules import Form, Rule
from paddock.sandbox.blocklist.settings import BlocklistSettings

__all__ = ["Blocklist", "BlocklistSettings", "Form", "ProgramProfile", "Refusal", "Rule"]
