"""Claims about links to rollouts that trackers show (`training.grpo.sample_table`): the view has what they name."""

import re
import shutil
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from paddock.training.grpo.sample_table import RolloutLinks
from paddock.viewer.web import Catalog
from paddock.viewer.web.app import build_view

ASSETS = Path(__file__).parents[3] / "src/paddock/viewer/web/assets"


@pytest.mark.parametrize(
    ("run", "shown"), [("runs/seen", "runs"), ("runs/of a day/seen", "runs"), ("elsewhere/seen", "elsewhere")]
)
async def test_a_link_names_a_page_a_run_and_a_rollout_that_are_there(
    seen_run: Path, tmp_path: Path, run: str, shown: str
) -> None:
    out = Path(shutil.copytree(seen_run, tmp_path / run))
    fragment = urlsplit(RolloutLinks("http://view/", out).link("0-1")).fragment
    page, _, query = fragment.removeprefix("/").partition("?")
    state = {key: values[0] for key, values in parse_qs(query).items()}
    script = (ASSETS / "app.js").read_text()
    assert page in re.findall(r"(\w+):", script.split("const PAGES = {")[1].split("}")[0])
    assert set(state) == {"run", "at"} and "state.at.split" in (ASSETS / "rollout.js").read_text()
    view = build_view(Catalog([tmp_path / shown]))
    group, member = state["at"].split("-")
    async with httpx.AsyncClient(transport=httpx.ASGITransport(view), base_url="http://view") as client:
        found = await client.get("/api/rollout", params={"run": state["run"], "group": group, "member": member})
    assert found.status_code == 200, found.text
