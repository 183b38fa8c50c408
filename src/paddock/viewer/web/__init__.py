"""`paddock view`: run folders in a browser, live while they are written.

Law     nothing in a run's folder is written but `notes.jsonl`; nothing is judged or computed again. A page gets rows of
        an index; texts, tokens and turns are read when they are opened, in pieces of a bounded size. What a rollout
        says reaches the page as JSON and is shown as text: its policy (`app.PAGE_POLICY`) runs no script but its own.
Access  as other servers: loopback and a token; the address that is printed brings it in its fragment, which no browser
        sends.
"""

from paddock.viewer.web.app import build_view
from paddock.viewer.web.catalog import Catalog, RunRef, find_runs
from paddock.viewer.web.serve import serve_view

__all__ = ["Catalog", "RunRef", "build_view", "find_runs", "serve_view"]
