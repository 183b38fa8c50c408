"""Units that answers end with. math-verify drops them; where both answers have one that is known here, they have to be
the same unit, as nothing is converted."""

import re

_NAMES = """
mm millimeter millimeters millimetre millimetres
cm centimeter centimeters centimetre centimetres
m meter meters metre metres
km kilometer kilometers kilometre kilometres
in inch inches
ft foot feet
mi mile miles
mg milligram milligrams
g gram grams
kg kilogram kilograms
ms millisecond milliseconds
s sec second seconds
min minute minutes
h hr hour hours
day days
ml milliliter milliliters millilitre millilitres
l liter liters litre litres
mph
km/h kmh kph
m/s
"""
_UNITS = {name: line.split()[0] for line in _NAMES.strip().splitlines() for name in line.split()}
_AT_END = re.compile(r"(?:\\(?:text|mathrm|textrm|mbox)\s*\{\s*([A-Za-z/]+)\.?\s*\}|(?<=\d)\s*([A-Za-z/]+))$")
_POWER = re.compile(r"\s*\^\s*\{?\s*(\d)\s*\}?$")


def unit_of(text: str) -> str:
    """The known unit that an answer ends with, with its power; empty: there is none."""
    power = _POWER.search(text)
    if power is not None:
        text = text[: power.start()]
    match = _AT_END.search(text)
    unit = _UNITS.get((match[1] or match[2]).lower(), "") if match is not None else ""
    return f"{unit}^{power[1]}" if unit and power is not None else unit


def units_differ(expected: str, answer: str) -> bool:
    """Whether both answers have a known unit, and not the same."""
    left, right = unit_of(expected), unit_of(answer)
    return bool(left and right and left != right)
