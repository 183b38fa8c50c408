"""A shop whose customer is simulated: the policy talks with them, and changes their orders by its tools.

Row     `orders` by number; `requests`, what the customer wants, one after the other: the first is the row's user
        message, the others are shown to the simulated user alone. The shop's rules refuse a request without a tool.
Reward  1 where the orders are in the end as all requests, and nothing else, make them.
"""

import json
from typing import Literal

from pydantic import BaseModel

from paddock.http import Call, ModelReply
from paddock.server import ModelServer, ServerConfig, ToolMistake, ToolsServer, ToolsServerConfig, tool
from paddock.types import JsonObject, Row, Verdict
from paddock.types.responses import call_item, make_response, message_item


class ShopOrder(BaseModel):
    customer: str
    items: list[str]
    address: str
    status: Literal["pending", "shipped", "cancelled"]


class CustomerRequest(BaseModel):
    say: str
    tool: Literal["cancel_order", "change_address"] | None = None
    arguments: dict[str, str] = {}


class ShopTask(BaseModel):
    orders: dict[str, ShopOrder]
    requests: list[CustomerRequest]


Orders = dict[str, ShopOrder]


class ShopServer(ToolsServer[ToolsServerConfig, ShopTask, Orders]):
    task_type = ShopTask

    async def open_state(self, task: ShopTask, row: Row) -> Orders:
        return {number: order.model_copy() for number, order in task.orders.items()}

    def visible(self, task: ShopTask, row: Row) -> JsonObject:
        return {"requests": [request.say for request in task.requests[1:]]}

    @tool
    def find_orders(self, orders: Orders, customer: str) -> dict[str, JsonObject]:
        """List the orders of a customer by number."""
        return {number: order.model_dump() for number, order in orders.items() if order.customer == customer}

    @tool
    def cancel_order(self, orders: Orders, number: str) -> str:
        """Cancel an order that is pending."""
        self._pending(orders, number).status = "cancelled"
        return f"{number} is cancelled"

    @tool
    def change_address(self, orders: Orders, number: str, address: str) -> str:
        """Send an order that is pending to another address."""
        self._pending(orders, number).address = address
        return f"{number} goes to {address}"

    async def judge_state(self, orders: Orders, task: ShopTask, row: Row, response: JsonObject) -> Verdict:
        wanted = await self.open_state(task, row)
        for request in task.requests:
            if request.tool is not None:
                getattr(self, request.tool)(wanted, **request.arguments)
        right = orders == wanted
        return Verdict(reward=float(right), reason="match" if right else "orders_differ")

    def oracle(self, task: ShopTask, row: Row) -> list[list[JsonObject]]:
        turns = []
        for request in task.requests:
            if request.tool is not None:
                turns.append([call_item(request.tool, json.dumps(request.arguments))])
            turns.append(
                [message_item("Done. Anything else?" if request.tool else "That can't be done. Anything else?")]
            )
        return turns

    @staticmethod
    def _pending(orders: Orders, number: str) -> ShopOrder:
        if number not in orders:
            raise ToolMistake(f"there is no order {number}")
        if orders[number].status != "pending":
            raise ToolMistake(f"order {number} is {orders[number].status}")
        return orders[number]


class ShopCustomer(ModelServer[ServerConfig]):
    """Plays the customer by rule, so that the example needs no model: it says one after the other the lines of its part
    that begin with `- `, and then the last word of its part."""

    async def responses(self, body: JsonObject, call: Call) -> ModelReply:
        part, *talk = body["input"]
        lines = [line.removeprefix("- ") for line in part["content"].splitlines() if line.startswith("- ")]
        said = sum(item["role"] == "assistant" for item in talk)
        text = lines[said] if said < len(lines) else part["content"].split()[-1]
        return make_response([message_item(text)], body, model=self.name)
