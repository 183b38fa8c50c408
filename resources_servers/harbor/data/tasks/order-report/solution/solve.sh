#!/bin/bash
set -e
cd /app
python3 - <<'PYTHON'
import csv
import json

with open("orders.csv") as file:
    orders = {order["id"]: order for order in csv.DictReader(file)}
totals = {}
for order in orders.values():
    if order["status"].lower() in ("cancelled", "refunded"):
        continue
    name = order["customer"].strip()
    totals[name] = totals.get(name, 0) + int(order["quantity"]) * int(order["unit_price_cents"])
with open("report.json", "w") as file:
    json.dump(totals, file)
PYTHON
