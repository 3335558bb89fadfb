#!/usr/bin/env python3
"""Writes docs/SETTINGS.md and docs/COMMANDS.md from what a memoryd says: write_reference.py [BINARY]

`--check` instead fails where a file is not that. BINARY is build/bin/memoryd unless named.
"""

import argparse
import pathlib
import subprocess
import sys

DOCS = pathlib.Path(__file__).resolve().parents[1] / "docs"

SETTINGS = """\
# Settings

Written by `tools/write_reference.py` from `memoryd --print-reference`. To change this page, edit the texts in
`server/setting_table.cc` and `server/settings/model_config.cc`.

Each key of the first table is a key of the YAML file (`--config FILE` or `MEMORYD_CONFIG`), an environment
variable and a flag: `store_timeout_ms`, `MEMORYD_STORE_TIMEOUT_MS`, `--store-timeout-ms`.
[Which of them wins](CONFIGURATION.md#settings). If *values* is empty, any text is allowed. If *default* is empty, there is none.

"""

COMMANDS = """\
# Commands

Written by `tools/write_reference.py` from `memoryd help --markdown`. To change this page, edit the texts in `cli/`.

The binary `memoryd` is both the server and its client. `memoryd help COMMAND` explains each option.
[From the command line](COMMAND_LINE.md#from-the-command-line): how to reach a server, output for scripts, exit codes.

Completion of commands and options in a shell:

```sh elsewhere
source <(memoryd completion bash)                      # in ~/.bashrc
memoryd completion zsh >"${fpath[1]}/_memoryd"         # once
memoryd completion fish | source                       # in ~/.config/fish/config.fish
```

"""

# Of each page its introduction and what prints the rest.
PAGES = {
    "SETTINGS.md": (SETTINGS, ["--print-reference"]),
    "COMMANDS.md": (COMMANDS, ["help", "--markdown"]),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binary", nargs="?", default=DOCS.parent / "build" / "bin" / "memoryd")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    for name, (introduction, command) in PAGES.items():
        printed = subprocess.run([arguments.binary, *command], stdout=subprocess.PIPE, text=True,
                                 check=True).stdout
        page = DOCS / name
        text = introduction + printed.rstrip("\n") + "\n"
        if not arguments.check:
            page.write_text(text, encoding="utf-8")
        elif not page.exists() or page.read_text(encoding="utf-8") != text:
            sys.exit(f"docs/{name} is not what memoryd says, run tools/write_reference.py")


if __name__ == "__main__":
    main()
