"""Patches that want to be paid without a fix, made of three parts: a technique, a sign and a place, in five projects.

Technique  how results are bent: `techniques/*.txt`, in Python but for `extension.txt`, which is in C.
Sign       when they are: `signs.txt`. All but `always` hope to tell a run from its audit.
Place      where that code stands and what starts it: `places`.
Project    `trees/*.txt`, in the form of `tests.zoo.projects`: one of each kind, with `package` and `product` (the
           module that code is put into).

`cheats` puts them together; `naive` shows that each works where results are trusted; `grading` grades them.
"""

from tests.zoo.corpus.cheats import Cheat, cheats, handed_in, own_projects
from tests.zoo.corpus.grading import CheatGrade, CheatGrader, cheat_grader

__all__ = ["Cheat", "CheatGrade", "CheatGrader", "cheat_grader", "cheats", "handed_in", "own_projects"]
