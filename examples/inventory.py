"""A whole environment with tools: a shelf to bring into order. `paddock eval configs/inventory_demo.yaml --oracle`"""

import json

from pydantic import BaseModel

from paddock.server import ToolMistake, ToolsServer, ToolsServerConfig, tool
from paddock.types import JsonObject, Row, Verdict
from paddock.types.responses import call_item


class InventoryTask(BaseModel):
    stock: dict[str, int]
    wanted: dict[str, int]


class InventoryServer(ToolsServer[ToolsServerConfig, InventoryTask, dict[str, int]]):
    task_type = InventoryTask

    async def open_state(self, task: InventoryTask, row: Row) -> dict[str, int]:
        return dict(task.stock)

    @tool
    def move(self, stock: dict[str, int], item: str, change: int) -> int:
        """Put items on the shelf, or take them off with a negative number; says how many there are then."""
        if stock.get(item, 0) + change < 0:
            raise ToolMistake(f"there are only {stock.get(item, 0)} of {item}")
        stock[item] = stock.get(item, 0) + change
        return stock[item]

    async def judge_state(self, stock: dict[str, int], task: InventoryTask, row: Row, response: JsonObject) -> Verdict:
        right = {item: n for item, n in stock.items() if n} == task.wanted
        return Verdict(reward=float(right), reason="match" if right else "stock_differs")

    def oracle(self, task: InventoryTask, row: Row) -> list[list[JsonObject]]:
        changes = {item: task.wanted.get(item, 0) - n for item, n in task.stock.items()}
        return [[call_item("move", json.dumps({"item": item, "change": n})) for item, n in changes.items()], []]
