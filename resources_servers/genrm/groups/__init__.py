"""Groups whose members are judged against each other: who belongs to one, what is asked, when it is settled, and the
state of all that on disk."""
