"""What httplint warns of in responses, for tests/scenario/httplint.rs.

Its arguments are files, each with the bytes of one response as they came. It prints a line for each warning: the name of
the file, a colon, and the warning. A response came when its file was written.
"""

import argparse
import contextlib
import io
import pathlib
import re
import sys

from httplint.cli.http_parser import HttpCliParser, modes

for path in map(pathlib.Path, sys.argv[1:]):
    said = io.StringIO()
    parser = HttpCliParser(argparse.Namespace(mode=modes.RESPONSE), path.stat().st_mtime)
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        parser.handle_input(path.read_bytes())
    lines = said.getvalue().splitlines()
    if parser.failed or not any("[" in line for line in lines):
        print(f"{path.name}: not understood: {' '.join(lines)}")
    for line in lines:
        if found := re.search(r"\[(?:WARN|BAD)\] (.*)", line):
            print(f"{path.name}: {found[1]}")
