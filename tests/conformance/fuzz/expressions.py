"""Random selector expressions: typed by construction out of all functions of the language, then sometimes mutated.

The generator asks for an expression of a type, and gets a literal, a variable, a call of a function with that result,
or a macro. What it makes is checked as a rule; some is refused, which upstream has to agree with as well.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

from claimsmith.cel import CelEnvironment
from claimsmith.cel.declarations import Overload
from claimsmith.cel.types import (
    BOOL,
    BYTES,
    CIDR,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    IP,
    NAMED_FORMAT,
    NULL,
    QUANTITY,
    SEMVER,
    STRING,
    TIMESTAMP,
    UINT,
    URL,
    CelType,
    is_assignable,
    list_of,
    map_of,
    optional_of,
    substitute,
)  # fmt: skip
from tests.conformance.fuzz.mutations import mutate, split_words
from tests.conformance.fuzz.words import LITERALS, STRINGS, Chance, draw_device

__all__ = ["ExpressionMaker", "draw_question"]

DRIVER: Final = "gpu.example.com"
_SCALARS: Final = (BOOL, INT, UINT, DOUBLE, STRING, BYTES, DURATION, TIMESTAMP)
_INNER: Final = (INT, STRING, BOOL, DOUBLE, UINT, QUANTITY, SEMVER, DURATION, BYTES)
_KEYS: Final = (STRING, INT, BOOL, UINT)
_MADE_FROM_TEXT: Final = {
    QUANTITY: ("quantity", "quantity"), SEMVER: ("semver", "semver"), IP: ("ip", "ip"), CIDR: ("cidr", "cidr"),
    URL: ("url", "url"), DURATION: ("duration", "duration"), TIMESTAMP: ("timestamp", "time"),
}  # fmt: skip
"""Types whose values come out of a text: the function and the texts."""
_TEXTS_OF: Final = {
    "quantity": "quantity", "isQuantity": "quantity", "semver": "semver", "isSemver": "semver", "ip": "ip",
    "isIP": "ip", "ip.isCanonical": "ip", "cidr": "cidr", "isCIDR": "cidr", "containsIP": "ip", "containsCIDR": "cidr",
    "url": "url", "isURL": "url", "matches": "regex", "find": "regex", "findAll": "regex", "duration": "duration",
    "timestamp": "time",
    "format.named": "format", "validate": "plain", "bool": "bool", "int": "number", "uint": "number",
    "double": "number",
    "getFullYear": "zone", "getMonth": "zone", "getDayOfYear": "zone", "getDayOfMonth": "zone", "getDate": "zone",
    "getDayOfWeek": "zone", "getHours": "zone", "getMinutes": "zone", "getSeconds": "zone", "getMilliseconds": "zone",
}  # fmt: skip
"""Which texts the last argument of a function is about."""
_HIDDEN: Final = {"@not_strictly_false", "cel.@mapInsert", "@sortByAssociatedKeys", "_?._", "_[?_]", "optional.unwrap"}
_ATTRIBUTE_IDS: Final = {
    STRING: ("model",), INT: ("index",), BOOL: ("healthy",), SEMVER: ("version",), list_of(INT): ("peers",),
    list_of(STRING): ("modes",), list_of(BOOL): ("flags",), list_of(SEMVER): ("firmware",),
}  # fmt: skip
_BORDERS: Final = {
    INT: ("7", "-7", "2", "-2", "3", "-1", "0", "1", "-9223372036854775808", "9223372036854775807", "3037000500"),
    UINT: ("7u", "2u", "3u", "0u", "1u", "18446744073709551615u", "4294967296u"),
}
_CLOSE: Final = {
    SEMVER: ("1.2.3", "1.2.3-rc.1", "1.2.3-rc.2", "1.2.3-rc.10", "1.2.3-rc", "1.2.3-1", "1.2.3+b", "1.10.0", "2.0.0-0"),
    QUANTITY: ("1", "1000m", "1k", "1000", "1Ki", "1024", "1023999m", "10Gi", "10737418240", "1e3", "0", "-1", "1n"),
}
_LENGTHS: Final = {0: 2, 1: 3, 2: 3, 3: 2, 30: 0.15}
_FORMATS: Final = ("dns1123Label", "uuid", "labelValue", "uri", "qualifiedName", "date", "byte")
_DEPTHS: Final = {1: 1.0, 2: 3.0, 3: 4.0, 4: 2.0, 5: 0.7}


def draw_question(seed: str) -> dict[str, Any]:
    """Return a question about one expression on one device, without an answer."""
    chance = Chance(seed)
    features = chance.weigh({"all": 4, "default": 3, "none": 1})
    maker = ExpressionMaker(chance, depth=chance.weigh(_DEPTHS))
    question: dict[str, Any] = {"name": seed, "features": features, "driver": DRIVER, "device": draw_device(chance)}
    if chance.happens(0.2):
        question["derivedAttribute"] = True
        inner = chance.pick((STRING, INT, INT, BOOL, SEMVER, STRING, DOUBLE))
        text = maker.make(list_of(inner) if chance.happens(0.3) else inner)
    else:
        text = maker.make(DYN if chance.happens(0.05) else BOOL)
    for _ in range(chance.weigh({0: 8, 1: 2, 2: 0.5})):
        text = mutate(text, chance)
    return {**question, "expression": text}


@cache
def _list_calls() -> tuple[tuple[str, Overload], ...]:
    functions = CelEnvironment(list_attributes=True).functions()
    return tuple(
        (name, overload)
        for name, function in functions.items()
        if name not in _HIDDEN
        for overload in function.overloads
    )


class ExpressionMaker:
    """Makes expressions of a wanted type.

    Args:
        depth: How deep calls nest.
    """

    def __init__(self, chance: Chance, *, depth: int) -> None:
        self._chance = chance
        self._depth = depth
        self._scope: list[tuple[str, CelType]] = []
        self._names = 0

    def make(self, wanted: CelType) -> str:
        """Return an expression of the type."""
        if wanted.kind == "param" or wanted.is_dyn:
            wanted = self._draw_type()
        if self._depth <= 0:
            return self._leaf(wanted)
        self._depth -= 1
        try:
            way = self._chance.weigh(
                {self._leaf: 2, self._call: 6, self._macro: 3, self._choice: 0.6, self._optional: 0.8}
            )
            return way(wanted)
        finally:
            self._depth += 1

    def make_bool(self) -> str:
        """Return an expression that a selector may be."""
        return self.make(BOOL)

    def _draw_type(self) -> CelType:
        inner = self._chance.pick((*_INNER, TIMESTAMP, NULL, IP, CIDR))
        return self._chance.weigh(
            {inner: 5, list_of(inner): 2, map_of(self._chance.pick(_KEYS), inner): 1, optional_of(inner): 0.5}
        )

    def _leaf(self, wanted: CelType) -> str:
        """A variable, an attribute or a literal."""
        known = [name for name, its_type in self._scope if its_type in (wanted, DYN)]
        if known and self._chance.happens(0.6):
            return self._chance.pick(known)
        if self._chance.happens(0.35) and (read := self._read(wanted)):
            return read
        return self._literal(wanted)

    def _read(self, wanted: CelType) -> str:
        """Something of the device."""
        if wanted == QUANTITY:
            return self._select("capacity", self._chance.pick(("memory", "cores", "missing")))
        if wanted == STRING and self._chance.happens(0.2):
            return "device.driver"
        if wanted == BOOL and self._chance.happens(0.3):
            return "device.allowMultipleAllocations"
        ids = _ATTRIBUTE_IDS.get(wanted)
        if ids is None:
            return ""
        others = sorted({name for names in _ATTRIBUTE_IDS.values() for name in names} | {"missing"})
        return self._select("attributes", self._chance.pick(ids if self._chance.happens(0.85) else others))

    def _select(self, field: str, name: str) -> str:
        domain = self._chance.weigh({DRIVER: 8, "resource.kubernetes.io": 1, "other.example": 1, "none.example": 0.3})
        name = {"resource.kubernetes.io": "pcieRoot", "other.example": "kind"}.get(domain, name)
        base = f'device.{field}["{domain}"]'
        return self._chance.weigh(
            {f"{base}.{name}": 6, f'{base}["{name}"]': 1, f"{base}.?{name}.orValue({self._any()})": 1}
        )

    def _any(self) -> str:
        return self._literal(self._chance.pick((STRING, INT, BOOL)))

    def _literal(self, wanted: CelType) -> str:
        chance = self._chance
        if wanted in _MADE_FROM_TEXT:
            function, kind = _MADE_FROM_TEXT[wanted]
            return f"{function}({self._text(kind)})"
        if wanted == STRING:
            return self._text("plain")
        if wanted.kind == "list":
            count = chance.weigh(_LENGTHS)
            return f"[{', '.join(self._literal(wanted.params[0]) for _ in range(count))}]"
        if wanted.kind == "map":
            key, value = wanted.params
            entries = (f"{self._literal(key)}: {self._literal(value)}" for _ in range(chance.number(0, 2)))
            return f"{{{', '.join(entries)}}}"
        if wanted.is_optional:
            made = f"optional.of({self._literal(wanted.params[0])})"
            return chance.pick((made, made, "optional.none()"))
        if wanted == NAMED_FORMAT:
            return f"format.{chance.pick(_FORMATS)}()"
        if wanted.kind == "type":
            return chance.pick(("int", "string", "bool", "list", "type(1u)", "net.IP", "null_type"))
        if wanted.kind == "param" or wanted.is_dyn:
            return self._literal(chance.pick(_SCALARS))
        return chance.pick(LITERALS[wanted.name])

    def _text(self, kind: str) -> str:
        right = STRINGS[kind][: max(4, len(STRINGS[kind]) // 2)]
        return json.dumps(self._chance.pick(right if self._chance.happens(0.7) else STRINGS[kind]), ensure_ascii=False)

    def _call(self, wanted: CelType) -> str:
        """A call of any function with the wanted result."""
        for name, overload in self._chance.sample(_list_calls(), 60):
            mapping = is_assignable({}, overload.result, wanted)
            if overload.result.kind in ("param", "dyn") and not self._chance.happens(0.2):
                continue
            if mapping is None:
                continue
            free = {text for arg in overload.args for text in arg.param_names()} - set(mapping)
            mapping |= {text: self._chance.pick(_INNER) for text in sorted(free)}
            return self._write(name, overload, [substitute(mapping, arg) for arg in overload.args])
        return self._leaf(wanted)

    def _write(self, name: str, overload: Overload, types: list[CelType]) -> str:
        args = [self.make(arg) for arg in types]
        if name == "format":
            shown = ", ".join(self.make(DYN) for _ in range(self._chance.number(0, 3)))
            return f"{self._text('template')}.format([{shown}])"
        if args and types[-1] == STRING and name in _TEXTS_OF and self._chance.happens(0.75):
            args[-1] = self._text(_TEXTS_OF[name])
        if name in ("charAt", "substring", "slice", "_[_]", "lists.range", "flatten") and self._chance.happens(0.8):
            args = [
                arg if a_type != INT else self._chance.pick(("0", "1", "2", "3", "-1"))
                for arg, a_type in zip(args, types, strict=True)
            ]
        return _render(name, args, is_method=overload.is_method)

    def _macro(self, wanted: CelType) -> str:
        makers: dict[Callable[[CelType], str], float] = {self._bind: 1, self._map_optional: 0.5}
        if wanted == BOOL:
            makers |= {self._quantifier: 4, self._has: 2, self._membership: 2, self._logic: 5, self._comparison: 5}
            makers |= {self._order: 1.5, self._domains: 0.5, self._loops: 0.05}
        if wanted in (INT, UINT):
            makers |= {self._arithmetic: 3}
        if wanted.kind == "list":
            makers |= {self._filter: 3, self._map: 3, self._sort: 1, self._transform_list: 1}
        if wanted.kind == "map":
            makers |= {self._transform_map: 3}
        return self._chance.weigh(makers)(wanted)

    def _within(self, variables: Mapping[str, CelType], wanted: CelType) -> str:
        self._scope += variables.items()
        text = self.make(wanted)
        del self._scope[len(self._scope) - len(variables) :]
        return text

    def _name(self) -> str:
        self._names += 1
        return f"v{self._names}" if self._chance.happens(0.95) else self._chance.pick(("x", "device"))

    def _range(self) -> tuple[str, CelType, dict[str, CelType]]:
        """Something to go over, and the variables of one and of two names."""
        inner = self._chance.pick(_INNER)
        if self._chance.happens(0.2):
            key = self._chance.pick(_KEYS)
            return self.make(map_of(key, inner)), key, {self._name(): key, self._name(): inner}
        return self.make(list_of(inner)), inner, {self._name(): INT, self._name(): inner}

    def _quantifier(self, wanted: CelType) -> str:
        source, inner, pair = self._range()
        macro = self._chance.pick(("all", "exists", "exists_one", "existsOne"))
        if self._chance.happens(0.25) and macro != "exists_one":
            return f"{_tight(source)}.{macro}({', '.join(pair)}, {self._within(pair, BOOL)})"
        name = self._name()
        return f"{_tight(source)}.{macro}({name}, {self._within({name: inner}, BOOL)})"

    def _filter(self, wanted: CelType) -> str:
        name = self._name()
        return f"{_tight(self.make(wanted))}.filter({name}, {self._within({name: wanted.params[0]}, BOOL)})"

    def _map(self, wanted: CelType) -> str:
        source, inner, _ = self._range()
        name = self._name()
        test = f"{self._within({name: inner}, BOOL)}, " if self._chance.happens(0.3) else ""
        return f"{_tight(source)}.map({name}, {test}{self._within({name: inner}, wanted.params[0])})"

    def _sort(self, wanted: CelType) -> str:
        name = self._name()
        key = self._chance.pick((INT, STRING, BOOL))
        return f"{_tight(self.make(wanted))}.sortBy({name}, {self._within({name: wanted.params[0]}, key)})"

    def _transform_list(self, wanted: CelType) -> str:
        source, _, pair = self._range()
        test = f"{self._within(pair, BOOL)}, " if self._chance.happens(0.3) else ""
        return f"{_tight(source)}.transformList({', '.join(pair)}, {test}{self._within(pair, wanted.params[0])})"

    def _transform_map(self, wanted: CelType) -> str:
        source, _, pair = self._range()
        if self._chance.happens(0.4):
            key, value = wanted.params
            entry = f"{{{self._within(pair, key)}: {self._within(pair, value)}}}"
            return f"{_tight(source)}.transformMapEntry({', '.join(pair)}, {entry})"
        return f"{_tight(source)}.transformMap({', '.join(pair)}, {self._within(pair, wanted.params[1])})"

    def _has(self, wanted: CelType) -> str:
        field = self._chance.pick(("attributes", "capacity"))
        name = self._chance.pick(("model", "index", "version", "peers", "memory", "missing"))
        base = f'device.{field}["{self._chance.pick((DRIVER, DRIVER, "other.example", "none.example"))}"]'
        return self._chance.pick((f"has({base}.{name})", f'"{name}" in {base}', f"{base}.?{name}.hasValue()"))

    def _membership(self, wanted: CelType) -> str:
        inner = self._chance.pick(_INNER)
        ids = _ATTRIBUTE_IDS.get(list_of(inner))
        if ids and self._chance.happens(0.3):
            return f"{_tight(self._select('attributes', self._chance.pick(ids)))}.includes({self.make(inner)})"
        return f"{_tight(self.make(inner))} in {_tight(self.make(list_of(inner)))}"

    def _logic(self, wanted: CelType) -> str:
        joined = self._chance.pick((" && ", " || ")).join(
            _tight(self.make(BOOL)) for _ in range(self._chance.number(2, 3))
        )
        return f"!({joined})" if self._chance.happens(0.15) else joined

    def _comparison(self, wanted: CelType) -> str:
        a_type = self._chance.pick(_SCALARS)
        other = self._chance.pick((INT, UINT, DOUBLE)) if a_type in (INT, UINT, DOUBLE) else a_type
        sign = self._chance.pick(("==", "!=", "<", "<=", ">", ">="))
        return f"{_tight(self.make(a_type))} {sign} {_tight(self.make(other))}"

    def _arithmetic(self, wanted: CelType) -> str:
        """An operation at the borders of numbers, or where rounding shows."""
        pick = self._chance.pick
        left, right = (pick(_BORDERS[wanted]) for _ in range(2))
        return f"({left} {pick(('/', '%', '/', '%', '+', '-', '*'))} {right})"

    def _order(self, wanted: CelType) -> str:
        """Two values that are close, by the functions that tell which comes first."""
        chance = self._chance
        a_type = chance.pick((SEMVER, QUANTITY))
        left, right = (f"{_MADE_FROM_TEXT[a_type][0]}({json.dumps(chance.pick(_CLOSE[a_type]))})" for _ in range(2))
        if chance.happens(0.25) and (read := self._read(a_type)):
            left = read
        function = chance.pick(("isLessThan", "isGreaterThan", "compareTo", "=="))
        if function == "==":
            return f"{left} == {right}"
        sign = f" {chance.pick(('<', '==', '>'))} 0" if function == "compareTo" else ""
        return f"{left}.{function}({right}){sign}"

    def _domains(self, wanted: CelType) -> str:
        """Which domains a device has, known and unknown ones."""
        chance = self._chance
        base = f"device.{chance.pick(('attributes', 'capacity'))}"
        domain = chance.pick((DRIVER, "resource.kubernetes.io", "other.example", "none.example"))
        texts = (
            f'"{domain}" in {base}', f"size({base}) == {chance.number(0, 3)}", f'size({base}["{domain}"]) > 0',
            f'{base}.exists(d, d == "{domain}")', f'{base}["{domain}"] == {{}}', f'{base}[?"{domain}"].hasValue()',
        )  # fmt: skip
        return chance.pick(texts)

    def _loops(self, wanted: CelType) -> str:
        """Nested loops whose cost is near the limit."""
        outer, inner = self._name(), self._name()
        lengths = (f"lists.range({self._chance.pick((10, 100, 300, 1000, 3000))})" for _ in range(2))
        body = self._within({outer: INT, inner: INT}, BOOL) if self._chance.happens(0.3) else f"{outer} + {inner} >= 0"
        return f"{next(lengths)}.all({outer}, {next(lengths)}.all({inner}, {body}))"

    def _bind(self, wanted: CelType) -> str:
        a_type, name = self._draw_type(), self._name()
        return f"cel.bind({name}, {self.make(a_type)}, {self._within({name: a_type}, wanted)})"

    def _map_optional(self, wanted: CelType) -> str:
        inner, name = self._chance.pick(_INNER), self._name()
        source = _tight(self.make(optional_of(inner)))
        if wanted.is_optional:
            body = self._within({name: inner}, wanted.params[0])
            return f"{source}.optMap({name}, {body})"
        return f"{source}.optMap({name}, {self._within({name: inner}, wanted)}).orValue({self.make(wanted)})"

    def _optional(self, wanted: CelType) -> str:
        """Ways through optional values and dynamic types."""
        chance = self._chance
        if wanted.is_optional:
            inner = self.make(list_of(wanted.params[0]))
            return chance.pick((f"{_tight(inner)}[?{chance.pick(('0', '1', '5'))}]", f"{_tight(inner)}.first()"))
        made = self.make(optional_of(wanted))
        ways = (f"{_tight(made)}.orValue({self.make(wanted)})", f"{_tight(made)}.value()", f"dyn({self.make(wanted)})")
        return chance.pick(ways)

    def _choice(self, wanted: CelType) -> str:
        return f"({_tight(self.make(BOOL))} ? {self.make(wanted)} : {self.make(wanted)})"


def _tight(text: str) -> str:
    """Return a text that binds tightly enough to stand anywhere."""
    depth = 0
    for word in split_words(text):
        depth += (word in "([{") - (word in ")]}")
        if not depth and not (word[0].isalnum() or word[0] in '_."' or word in ")]}"):
            return f"({text})"
    return text


def _render(name: str, args: list[str], *, is_method: bool) -> str:
    """Return the source text of a call or an operator."""
    tight = [_tight(arg) for arg in args]
    if is_method:
        return f"{tight[0]}.{name}({', '.join(args[1:])})"
    match name:
        case "_[_]":
            return f"{tight[0]}[{args[1]}]"
        case "_?_:_":
            return f"({tight[0]} ? {tight[1]} : {tight[2]})"
        case "@in":
            return f"{tight[0]} in {tight[1]}"
        case "!_" | "-_":
            return f"{name[0]}{tight[0]}"
    if name.startswith("_"):
        return f"{tight[0]} {name.strip('_')} {tight[1]}"
    return f"{name}({', '.join(args)})"
