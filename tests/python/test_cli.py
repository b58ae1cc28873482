"""The command line: what it prints, where, and its exit status."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import tierscope as ts
from conftest import Runner, threads_of, wait_until, wait_until_it_has_worked
from tierscope import _call, _core
from tierscope.cli import main
from tierscope.cli.app import with_negative_values

LONG = ("-w", "gups", "--set", "workload.updates=1000000000000")
SHORT = ("-w", "gups", "--set", "workload.updates=500")


def test_version_and_help(tierscope: Runner) -> None:
    assert tierscope("--version").stdout.strip() == ts.__version__
    shown = tierscope("--help")
    assert shown.returncode == 0
    assert "tierscope run -s hybrid/quick,storage/quick,oracle/quick -- ./my_program args" in (
        shown.stdout
    )
    assert max(map(len, shown.stdout.splitlines())) <= 80


def test_json_replaces_json_only(tierscope: Runner, tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text('base = "oracle/quick"\n', encoding="utf-8")
    refused = tierscope("run", "-s", "mine.toml", *SHORT, "--json=mine.toml")
    assert refused.returncode == 125
    assert refused.stderr == (
        "error[unwritable]: mine.toml is no JSON object, and is left alone\n"
        "  = name a new file, or an earlier JSON object to replace\n"
    )
    assert mine.read_text(encoding="utf-8") == 'base = "oracle/quick"\n'
    (tmp_path / "empty.json").touch()
    for _ in range(2):
        assert tierscope("run", "-s", "mine.toml", *SHORT, "--json=empty.json").returncode == 0
    assert json.loads((tmp_path / "empty.json").read_text(encoding="utf-8"))["systems"]


@pytest.mark.parametrize(
    "command",
    [
        *("run", "record", "compare", "show", "check", "trace info"),
        *("init", "doctor", "completions"),
    ],
)
def test_each_command_explains_itself_with_an_example(tierscope: Runner, command: str) -> None:
    shown = tierscope(*command.split(), "--help")
    assert shown.returncode == 0
    assert f"tierscope {command}" in shown.stdout


def test_show_lists_presets_and_workloads(tierscope: Runner) -> None:
    shown = tierscope("show").stdout
    for name in ("hybrid/quick", "storage", "oracle", "gups", "updates = 5000"):
        assert name in shown


def test_a_preset_that_is_shown_loads_back(tierscope: Runner, tmp_path: Path) -> None:
    shown = tierscope("show", "hybrid/quick", "--set", "hybrid.cache.ways=8")
    assert "ways = 8" in shown.stdout
    assert "# [HYB15]" in shown.stdout, "numbers come with their sources"
    (tmp_path / "mine.toml").write_text(shown.stdout, encoding="utf-8")
    checked = tierscope("check", "mine.toml")
    assert (checked.returncode, checked.stdout) == (0, "mine.toml: no mistake\n")


def test_a_kernel_and_a_host_are_shown_as_they_are_written(tierscope: Runner) -> None:
    kernel = tierscope("show", "linux-2.6.32").stdout
    assert 'readahead_release = "2.6.32"  # Linux' in kernel
    assert "[processor]" in tierscope("show", "nvm10-host").stdout
    for near, name in (("linux-2.6.3", "linux-2.6.32"), ("nvm10-hos", "nvm10-host")):
        mistaken = tierscope("show", near)
        assert mistaken.returncode == 125
        assert f"did you mean {name}?" in mistaken.stderr


def test_check_tells_every_mistake_with_its_place(tierscope: Runner, tmp_path: Path) -> None:
    text = 'base = "hybrid/quick"\n[hybrid.cache]\nways = 65\npage = "4kb"\nwyas = 3\n'
    (tmp_path / "wrong.toml").write_text(text, encoding="utf-8")
    checked = tierscope("check", "wrong.toml", "hybrid")
    assert checked.returncode == 125
    assert checked.stdout == "hybrid: no mistake\n"
    assert "error[bad-unit]: hybrid.cache.page" in checked.stderr
    assert "error[unknown-key]: hybrid.cache.wyas" in checked.stderr
    assert "--> wrong.toml:4:" in checked.stderr


def test_check_takes_sweeps_too(tierscope: Runner, tmp_path: Path) -> None:
    text = 'systems = ["oracle/quick"]\nworkloads = ["gups"]\nrepetitions = 3\n'
    (tmp_path / "right.toml").write_text(text, encoding="utf-8")
    checked = tierscope("check", "right.toml", "oracle")
    assert checked.stdout == "right.toml: no mistake; a sweep of 3 points\noracle: no mistake\n"
    assert checked.returncode == 0
    (tmp_path / "wrong.toml").write_text(f"{text}repeat = 3\nskip = 'some'\n", encoding="utf-8")
    checked = tierscope("check", "wrong.toml", "right.toml")
    assert checked.returncode == 125
    assert "a sweep of 3 points" in checked.stdout
    assert "error[unknown-key]: repeat" in checked.stderr
    assert "--> wrong.toml:4:1" in checked.stderr
    assert "--> wrong.toml:5:" in checked.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"right.toml", "wrong.toml"}


def test_check_tells_what_has_no_effect(tierscope: Runner, tmp_path: Path) -> None:
    text = 'base = ["storage/ext4", "storage/quick"]\n'
    (tmp_path / "plain.toml").write_text(text, encoding="utf-8")
    checked = tierscope("check", "plain.toml", "storage/ext4")
    assert (checked.returncode, checked.stderr) == (0, "")
    right, remark, other = checked.stdout.splitlines()
    assert (right, other) == ("plain.toml: no mistake", "storage/ext4: no mistake")
    assert remark.startswith("  storage.file_system.barrier has no effect: the store ([store])")


def test_the_report_has_the_figures_of_each_system(tierscope: Runner) -> None:
    shown = tierscope("run", "-s", "hybrid/quick,storage/quick", "-s", "oracle/quick", *SHORT)
    assert (shown.returncode, shown.stderr) == (0, "")
    lines = shown.stdout.splitlines()
    assert ["hybrid/quick", "storage/quick", "oracle/quick"] in [line.split() for line in lines]
    for label in (
        "Execution time",
        "Instructions per cycle",
        "Slowdown against oracle",
        "Misses, DRAM cache",
        "Access latency, mean",
        "  99.9th percentile",
        "Read from the store",
        "Written to the store",
        "Where the threads' time goes",
        "Complete: the whole workload was simulated on every system.",
    ):
        assert any(line.startswith(label) for line in lines), label


def test_json_is_one_object_on_stdout(tierscope: Runner) -> None:
    shown = tierscope("run", "-s", "hybrid/quick", *SHORT, "--json", "--seed", "7")
    result = json.loads(shown.stdout)
    jsonschema.validate(result, _call.parsed(_core.schema("result")))
    assert result["workload"]["seed"] == 7
    assert result["workload"]["parameters"]["updates"] == 500


def test_json_goes_to_a_file_beside_the_report(tierscope: Runner, tmp_path: Path) -> None:
    shown = tierscope("run", "-s", "hybrid/quick", *SHORT, "--json=result.json")
    assert "Execution time" in shown.stdout
    assert "hybrid/quick" in json.loads((tmp_path / "result.json").read_text())["systems"]
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


def test_a_kept_result_holds_machine_summary_and_intervals(
    tierscope: Runner, tmp_path: Path
) -> None:
    change = ("--set", "hybrid.cache.ways=4", "--set", "workload.random=0.5")
    shown = tierscope("run", "-s", "hybrid/quick,oracle/quick", *SHORT, *change, "-o", "kept")
    assert shown.returncode == 0, shown.stderr
    kept = ts.load(tmp_path / "kept")
    assert kept.data["workload"]["parameters"]["random"] == 0.5
    assert "ways = 4" in kept.descriptions["hybrid/quick"]
    assert kept.intervals["accesses"].sum() == 2 * kept["oracle/quick"]["accesses"]
    again = tierscope("run", "-s", "kept/system-hybrid-quick.toml", *SHORT, *change[2:], "--json")
    repeated = json.loads(again.stdout)["systems"]["hybrid/quick"]
    assert repeated["time_ps"] == kept["hybrid/quick"]["time_ps"], "what is kept runs again"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("rum",), "usage", 'did you mean "run"'),
        (("run", "-s", "hybrid", "--wat"), "usage", "--wat"),
        (("run", "-w", "gups"), "usage", "--system"),
        (("run", "-s", "", "-w", "gups"), "usage", "no system"),
        (("run", "-s", "hybrid"), "usage", "nothing to run"),
        (("run", "-s", "hybrid", "-w", "gups", "--", "ls"), "usage", "both"),
        (("run", "-s", "hybrid", "-w", "gups", "--native"), "usage", "--native needs a program"),
        (("run", "-s", "hybrid", "-w", "gups", "--set", "a"), "usage", "gives no value"),
        (("run", "-s", "hybrid", "-w", "gups", "--set", "a="), "usage", "gives no value"),
        (("run", "-s", "hybrid", "-w", "gups", "--set", "=3"), "usage", "names no value"),
        (("show", "hybrid", "--set", "=3"), "usage", "names no value"),
        (("run", "-s", "hybird/quick", *SHORT), "unknown-system", 'did you mean "hybrid/quick"?'),
        (("run", "-s", "hybird", "-w", "gups"), "unknown-system", 'did you mean "hybrid"?'),
        (("run", "-s", "no.toml", "-w", "gups"), "unreadable-file", "no such file"),
        (("run", "-s", "hybrid", "-w", "gusp"), "unknown-value", "did you mean `gups`?"),
        (("run", "-s", "hybrid", "-w", "spectra:x"), "unknown-format", "trace:FILE"),
        (("run", "-s", "hybrid", "-w", "trace:x"), "unreadable-recording", "x"),
        (("run", "-s", "hybrid", *SHORT, "--set", "workload.rnd=1"), "unknown-key", "`random`?"),
        (("run", "-s", "hybrid", *SHORT, "--set", "hybrid.ways=1"), "unknown-key", "ways"),
        (("run", "-s", "hybrid", *SHORT, "-o", "/proc/x/y"), "unwritable", "/proc/x/y"),
        (("run", "-s", "hybrid", "--", "/no/such/program"), "no-program", "/no/such/program"),
        (("show", "hybird"), "unknown-system", 'did you mean "hybrid"?'),
        (("show", "--set", "a=1"), "usage", "name the system"),
        (("check",), "usage", "no file"),
        (("record", "-o", "x.tst"), "usage", "no program"),
        (("trace", "info", "nowhere.tst"), "unreadable-recording", "nowhere.tst"),
        (("compare",), "usage", "no two results"),
        (("compare", "one"), "usage", "tierscope show DIR prints one"),
        (("compare", "one", "./one"), "usage", "given twice"),
        (("compare", "one", "two"), "unreadable", "one/result.json"),
        (("show", "."), "unreadable", "result.json"),
        (("show", ".", "--set", "a=1"), "usage", "not a result"),
        (("show", "systems", "--json"), "usage", "--json is for a system or a result"),
        (("show", "linux-4.9", "--set", "a=1"), "usage", 'base = ["SYSTEM", "linux-4.9"]'),
    ],
)
def test_a_mistake_is_one_error_with_a_code_and_status_125(
    tierscope: Runner, tmp_path: Path, arguments: tuple[str, ...], code: str, said: str
) -> None:
    shown = tierscope(*arguments)
    assert shown.returncode == 125
    assert shown.stdout == "", "nothing has run"
    assert shown.stderr.startswith(f"error[{code}]: ")
    assert said.lower() in shown.stderr.lower()
    assert "Traceback" not in shown.stderr
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run", "-s", "./pipe", *SHORT), "named pipe"),
        (("check", "./pipe"), "named pipe"),
        (("run", "-s", "oracle/quick", "-w", "trace:pipe"), "no regular file"),
        (("trace", "info", "pipe"), "no regular file"),
    ],
)
def test_a_pipe_that_nobody_writes_to_is_not_waited_for(
    tierscope: Runner, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    os.mkfifo(tmp_path / "pipe")
    shown = tierscope(*arguments)
    assert shown.returncode == 125
    assert said in shown.stderr


def test_a_system_comes_from_a_pipe_that_the_shell_opened(tmp_path: Path) -> None:
    check = f"{sys.executable} -m tierscope check <(echo 'base = \"hybrid/quick\"')"
    shown = subprocess.run(
        ["bash", "-c", check],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert shown.returncode == 0, shown.stderr


def test_an_error_that_nobody_foresaw_is_a_line_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_: list[str]) -> int:
        raise RuntimeError("the roof is on fire")

    monkeypatch.setattr("tierscope.cli.app.dispatch", broken)
    assert main(["show"]) == 125
    assert capsys.readouterr().err.startswith(
        "error[internal]: RuntimeError: the roof is on fire; please report it\n"
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_run_with_a_partial_result(tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "tierscope", "run", "-s", "oracle/quick", *LONG, "-o", "kept"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        wait_until(lambda: "tierscope-run" in threads_of(running.pid))
        wait_until_it_has_worked(running.pid, 0.3)
        running.send_signal(number)
        output, errors = running.communicate(timeout=300)
    assert running.returncode == 128 + number
    outlook = "tierscope: at the rate of the first "  # It is there where this takes long.
    assert [line for line in errors.splitlines() if not line.startswith(outlook)] == []
    assert "Partial: the run was interrupted." in output
    kept = ts.load(tmp_path / "kept")
    assert kept.data["completeness"] == "partial"
    assert kept["oracle/quick"]["accesses"] > 0


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "tierscope", "show", "hybrid"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    ) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.close()
        errors = running.stderr.read()
        running.wait(timeout=300)
    assert errors == b""
    assert running.returncode in (0, 128 + signal.SIGPIPE)


def test_a_terminal_that_knows_only_ascii_gets_ascii(tierscope: Runner) -> None:
    shown = tierscope(
        "run", "-s", "oracle/quick", *SHORT, PYTHONUTF8="0", PYTHONIOENCODING="ascii", LC_ALL="C"
    )
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.isascii()
    assert "##" in shown.stdout


@pytest.mark.parametrize(
    "wrong",
    [
        ("--limit=-1",),
        ("--limit=99999999999999999999",),
        ("--limit=0",),
        ("--limit=1.5",),
        ("--limit=5 minutes",),
        ("--skip=",),
        ("--skip=1M", "--roi"),
        ("--seed=-1",),
        ("--time-limit=-1",),
        ("--time-limit=nan",),
        ("--json=",),
    ],
)
def test_an_impossible_option_is_told_in_the_users_words(
    tierscope: Runner, wrong: tuple[str, ...]
) -> None:
    ended = tierscope("run", "-s", "oracle/quick", *SHORT, *wrong)
    assert (ended.returncode, ended.stdout) == (125, "")
    assert ended.stderr.startswith(("error[usage]", "error[impossible-value]"))
    assert "u64" not in ended.stderr


def test_what_begins_with_a_minus_and_a_digit_is_a_value() -> None:
    program = ["--", "tail", "--lines", "-5"]
    given = ["run", "--limit", "-5ms", "--precision", "-.5", *program]
    assert with_negative_values(given) == ["run", "--limit=-5ms", "--precision=-.5", *program]
    for alone in (["-q", "-5"], ["--skip=1M", "-5"], ["--limit", "-s", "oracle"]):
        assert with_negative_values(alone) == alone


def test_a_device_or_pipe_is_never_replaced(tierscope: Runner, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    ended = tierscope("record", "-o", "pipe", "--", "true")
    assert (ended.returncode, "left alone" in ended.stderr) == (125, True)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    ended = tierscope("run", "-s", "oracle/quick", *SHORT, "--json=pipe")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert os.read(reader, 1) == b"{"
    os.close(reader)
    assert pipe.is_fifo()


def test_a_full_disk_behind_stdout_is_told(tmp_path: Path) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "tierscope", "show"],
            cwd=tmp_path,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert ended.returncode == 125
    assert ended.stderr.startswith("error[unwritable]: standard output")


def test_a_closed_stdout_is_no_failure(tmp_path: Path) -> None:
    command = f"{sys.executable} -m tierscope run -s oracle/quick {' '.join(SHORT)} >&-"
    ended = subprocess.run(
        ["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")


def said(tierscope: Runner, *arguments: str, **environment: str) -> str:
    """What is said of a mistake, all of it."""
    ended = tierscope(*arguments, **environment)
    assert (ended.returncode, ended.stdout) == (125, "")
    return ended.stderr


def test_a_seed_below_0_is_refused_in_these_words(tierscope: Runner) -> None:
    assert said(tierscope, "run", "-s", "oracle/quick", *SHORT, "--seed", "-1") == (
        "error[usage]: invalid value for --seed: it must be a whole number from 0 to "
        "18446744073709551615, not -1\n  = tierscope run --help shows how\n"
    )


def test_the_file_of_a_recording_is_met_with_its_prefix(tierscope: Runner, tmp_path: Path) -> None:
    run = ("run", "-s", "oracle/quick", "-w")
    wrong = "error[unknown-value]: app.tst is a file, not a workload's name\n"
    assert said(tierscope, *run, "app.tst") == wrong + "  = write trace:app.tst\n"
    (tmp_path / "other").write_bytes(b"")
    assert "= write trace:other\n" in said(tierscope, *run, "other")
    (tmp_path / "app.tst").write_bytes(b"")
    assert said(tierscope, *run, "app") == (
        "error[unknown-value]: there is no workload app\n  = did you mean trace:app.tst?\n"
    )


@pytest.mark.parametrize(
    ("arguments", "means_nothing"),
    [
        (("--seed", "3", "--", "ls"), "--seed means nothing to a program"),
        (("--allow-truncated", "--", "ls"), "--allow-truncated means nothing to a program"),
        (("--set", "workload.x=1", "--", "ls"), "--set workload.x means nothing to a program"),
        (("--seed", "3", "-w", "trace:app.tst"), "a seed means nothing to the recording app.tst"),
        (("--allow-truncated", "-w", "gups"), "to the generated workload gups"),
        (("--set", "workload.x=1", "-w", "trace:app.tst"), "a recording has no parameters, but x"),
    ],
)
def test_what_has_no_effect_is_refused(
    tierscope: Runner, arguments: tuple[str, ...], means_nothing: str
) -> None:
    words = said(tierscope, "run", "-s", "oracle/quick", *arguments)
    assert words.startswith("error[no-effect]: ")
    assert means_nothing in words
    assert words.splitlines()[1].startswith("  = leave it out")


def test_a_program_without_a_name_is_refused(tierscope: Runner) -> None:
    for command in ("run", "-s", "oracle/quick"), ("record", "-o", "app.tst"):
        assert said(tierscope, *command, "--", "") == (
            "error[no-program]: the program's name is empty\n"
            "  = give the path of a program, or a name in PATH\n"
        )


def test_what_is_no_qemu_is_told_with_its_answer(tierscope: Runner) -> None:
    run = ("run", "-s", "oracle/quick", "--", "ls")
    assert said(tierscope, *run, TIERSCOPE_QEMU="/bin/cat") == (
        'error[unfit-qemu]: /bin/cat --version answers "cat (GNU coreutils) '
        f'{_coreutils()}", and a qemu-x86_64 answers "qemu-x86_64 version ...": name one by '
        'TIERSCOPE_QEMU, or a script that ends with exec qemu-x86_64 "$@"\n'
    )


def _coreutils() -> str:
    answer = subprocess.run(["/bin/cat", "--version"], capture_output=True, text=True, check=True)
    return answer.stdout.splitlines()[0].split()[-1]


def test_a_workload_that_no_machine_can_hold_is_refused_before_the_run(tierscope: Runner) -> None:
    large = ("-w", "gups", "--set", "workload.table=64GiB")
    assert said(tierscope, "run", "-s", "oracle/quick,hybrid/quick", *large) == (
        'error[contradiction]: workload.table = "64GiB": oracle/quick has room for 4GiB; write '
        "4GiB or less, or give the machine a larger oracle.capacity\n"
        'error[contradiction]: workload.table = "64GiB": hybrid/quick has room for 4GiB; write '
        "4GiB or less, or give the machine a larger store.capacity\n"
    )
