"""What shells and `man` get: completions and the manual page."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Runner
from tierscope.cli import manual
from tierscope.cli.app import of

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "wheel" / "data" / "share" / "man" / "man1" / "tierscope.1"


def completed(script: str, line: str) -> list[str]:
    """What bash offers at the end of a line."""
    words = line.split(" ")
    asked = (
        f"{script}\nCOMP_WORDS=({' '.join(w or repr(w) for w in words)})\n"
        f"COMP_CWORD={len(words) - 1}\n_tierscope\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"\n"
    )
    done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_bash_completes_commands_and_options(tierscope: Runner) -> None:
    script = tierscope("completions", "bash").stdout
    assert "doctor" in completed(script, "tierscope do")
    assert {"run", "record"} <= set(completed(script, "tierscope r"))
    assert completed(script, "tierscope run --sys") == ["--system"]


def test_bash_completes_systems_and_workloads(tierscope: Runner, tmp_path: Path) -> None:
    script = tierscope("completions", "bash").stdout
    (tmp_path / "folder").mkdir()
    (tmp_path / "mine.toml").touch()
    (tmp_path / "other.txt").touch()
    # The command that the script asks is this one.
    asked = f'tierscope() {{ {sys.executable} -m tierscope "$@"; }}\ncd {tmp_path}\n{script}'
    for option in ("-s", "--system"):
        assert completed(asked, f"tierscope run {option} hyb") == [
            "hybrid",
            "hybrid/quick",
            "hybrid/optane",
            "hybrid/alloy",
            "hybrid/alloy/quick",
        ]
    assert completed(asked, "tierscope run -s hybrid,orac") == [
        r"hybrid\,oracle",
        r"hybrid\,oracle/quick",
    ]
    offered = completed(asked, "tierscope run -s ")
    assert {"storage", "device/ddr4-2400", "mine.toml", "folder/"} <= set(offered)
    assert "other.txt" not in offered
    assert completed(asked, "tierscope run -s no/such/folder/") == []
    assert completed(asked, "tierscope run -w gu") == ["gups"]
    assert completed(asked, "tierscope show ora") == ["oracle", "oracle/quick"]
    assert completed(asked, "tierscope init ora") == ["oracle", "oracle/quick"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shells_script_knows_every_command(tierscope: Runner, shell: str) -> None:
    script = tierscope("completions", shell)
    assert (script.returncode, script.stderr) == (0, "")
    for name in of():
        assert name.startswith("-") or re.search(rf"\b{name}\b", script.stdout), name
    found = shutil.which(shell)
    if found is not None:
        checked = subprocess.run(
            [found, "-n"], input=script.stdout, capture_output=True, text=True, check=False
        )
        assert checked.returncode == 0, checked.stderr


def test_a_command_that_is_loaded_alone_says_of_itself_what_it_says_among_all(
    capsys: pytest.CaptureFixture[str],
) -> None:
    whole = of()
    names = [name for name in whole if not name.startswith("-")]
    assert {"run", "sweep", "show", "trace"} <= set(names)
    for name in names:
        words = ["trace", "info"] if name == "trace" else [name]
        said = []
        for command_line in (of([" ".join(words)]), whole):
            command_line([*words, "--help"])
            said.append(capsys.readouterr().out)
        assert said[0] == said[1]
        assert f"Usage: tierscope {' '.join(words)}" in said[0]


def test_what_draws_and_what_makes_tables_is_loaded_when_it_is_asked_for() -> None:
    """Either takes as long to load as all of the command."""
    script = (
        "import sys\nfrom tierscope.cli.app import of\nof()\n"
        "print({'matplotlib', 'numpy', 'polars', 'vl_convert'} & set(sys.modules))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "set()\n"


def test_another_shell_is_refused_with_those_that_there_are(tierscope: Runner) -> None:
    refused = tierscope("completions", "tcsh")
    assert refused.returncode == 125
    assert all(shell in refused.stderr for shell in ("bash", "zsh", "fish"))


def test_the_manual_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == manual.page(), "run: make generate"


def test_the_manual_page_has_every_command_and_option() -> None:
    page = PAGE.read_text(encoding="utf-8").replace("\\-", "-")
    for name in ("run", "record", "init", "doctor", "trace info"):
        assert f'.SS "{name}"' in page
    for option in ("--system", "--workload", "--set", "--json", "--allow-truncated"):
        assert option in page
    assert "Args:" not in page
    assert page.isascii()
    lines = page.splitlines()
    requests = {line.split()[0] for line in lines if line.startswith((".", "'"))}
    assert requests <= {".TH", ".SH", ".SS", ".PP", ".TP", ".B", ".I", ".nf", ".fi"}
    assert lines.count(".nf") == lines.count(".fi")
