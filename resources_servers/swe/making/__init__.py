"""Making rows of the own format from people's own repositories: a fix that has its tests becomes a task."""

from paddock.resources_servers.swe.making.history import Change, Fix, History, open_history
from paddock.resources_servers.swe.making.paths import is_test, split
from paddock.resources_servers.swe.making.row import Made, Wish, make_row

__all__ = ["Change", "Fix", "History", "Made", "Wish", "is_test", "make_row", "open_history", "split"]
