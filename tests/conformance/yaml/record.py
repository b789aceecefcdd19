"""Ask go-yaml v2, the reader of kubectl, what it makes of scalars, and keep its answers.

    python -m tests.conformance.yaml.record RECORDER

RECORDER is the Go program in `recorder/`. Written anew is `answers.json.gz`: scalar → JSON, or ERROR.
"""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Final

ANSWERS: Final = Path(__file__).parent / "answers.json.gz"
KNOWN: Final = r"""
y Y yes Yes YES yEs n N no No NO on On ON off Off OFF true True TRUE tRUE false False FALSE ~ null Null NULL nUll
0777 0o777 0O17 0o8 08 09.5 1_000 1__0 _1 1_ +_1 -_1 0_7 12:30:45 190:20:30 1:20 1e3 1E3 1.0 1.10 .5 -.5 +.5 .5_0
._5 .5_ 5. 1.e3 0x1F 0X1f -0x1f +0x1f 0x 0x_1 0xg 0b101 0B11 -0b11 +0b11 0b 0b2 - + . -. +. = << 0. 00 -0 -0.0 +0
9223372036854775807 9223372036854775808 -9223372036854775808 -9223372036854775809 18446744073709551615
18446744073709551616 +18446744073709551615 123456789012345678901 1e20 1e21 1e22 1e-6 1e-7 1e400 -1e400 1e-400
0xffffffffffffffff 0xfffffffffffffffff 1.7976931348623157e308 4.9e-324 12345678901234567 0.1 1.5.2 1,000 1e 1e+ e3
2001-01-01 2001-1-1 2001-12-14t21:59:43.10-05:00 20010101 10Gi 500m 1.2.3 v1 .nan .NaN .inf -.Inf +.INF .iNf
'y' "yes" '12' '' ! !!str !!int "\u0041"
"""
TAGGED: Final = """
!!str 12|!!int "12"|!!float 3|!!int 3.5|!!bool yes|!!bool "yes"|!!null x|!foo 12|!!binary aGVsbG8=|!!str yes
!!float .inf|!!int y|!!bool on|!!float 1e3|!!int 0x1F|!!float 0.5|!!null ''|!!str ~|[y, n]|! 12|! "a"|["n", off]
"""


def main() -> None:
    """Write the file of answers."""
    rng = random.Random(37)
    alphabet = "0123456789_.+-eExXoObB"
    texts = {*KNOWN.split(), *TAGGED.strip().replace("\n", "|").split("|"), "|-\n  12"}
    texts.update("".join(rng.choices(alphabet, k=rng.randint(1, 6))) for _ in range(4_000))
    texts.update("".join(rng.choices(alphabet + "aAfFyYnNtT~:", k=rng.randint(1, 5))) for _ in range(2_000))
    ordered = sorted(texts)
    run = subprocess.run(
        [sys.argv[1]], input="\n".join(map(json.dumps, ordered)), capture_output=True, text=True, check=True
    )
    answers = dict(zip(ordered, run.stdout.splitlines(), strict=True))
    with gzip.GzipFile(ANSWERS, "w", mtime=0) as out:
        out.write(json.dumps(answers, separators=(",", ":")).encode())


if __name__ == "__main__":
    main()
