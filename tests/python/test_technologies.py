"""The table of technologies: each figure has a source, and files are laid over it."""

import json
from pathlib import Path

import pytest
from tierscope.cli import main
from tierscope.errors import TierscopeError
from tierscope.technologies import FIGURES, FLAGS, technologies

WANTED = {
    "dram",
    "multi-level-dram",
    "mram",
    "stt-mram",
    "fram",
    "pcm",
    "3d-xpoint",
    "nor",
    "slc",
    "mlc",
    "tlc",
    "z-nand",
    "disk",
}


def test_every_technology_is_there_and_every_figure_has_a_source() -> None:
    known = technologies()
    assert set(known.by_key) == WANTED
    for it in known.by_key.values():
        assert set(it.flags) == set(FLAGS), it.key
        for name, figure in it.figures.items():
            assert name in FIGURES
            assert figure.source, (it.key, name)
    assert known.by_key["pcm"].figures["read_ns"].least == 67.5
    assert "erase_ns" not in known.by_key["pcm"].figures, "what has no source is missing"


def test_keys_of_sources_are_explained() -> None:
    known = technologies()
    for it in known.by_key.values():
        sources = [flag.source for flag in it.flags.values()]
        sources += [figure.source for figure in it.figures.values()]
        for source in sources:
            if source.startswith("["):
                key = source[1:].partition("]")[0]
                assert key in known.sources, (it.key, key)


def test_a_file_is_laid_over_the_table(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(
        '[pcm]\nread_ns = { least = 50, most = 60, source = "mine" }\n'
        '[racetrack]\nname = "Racetrack memory"\nendurance = { least = 1e16, source = "mine" }\n'
    )
    known = technologies(file)
    pcm, new = known.by_key["pcm"], known.by_key["racetrack"]
    assert (pcm.figures["read_ns"].least, pcm.figures["read_ns"].most) == (50, 60)
    assert pcm.figures["write_ns"].least == 215, "the rest stays"
    assert (new.figures["endurance"].least, new.figures["endurance"].most) == (1e16, None)
    assert set(known.by_key) == {*WANTED, "racetrack"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[pcm]\nread_ns = 5\n", "pcm.read_ns: it has no source"),
        ('[pcm]\nread_ns = { is = 5, source = " " }\n', "pcm.read_ns: it has no source"),
        ('[pcm]\nread_ns = { is = -5, source = "s" }\n', "-5 (int) is no number from 0 to 1e+30"),
        (
            '[pcm]\nread_ns = { is = nan, source = "s" }\n',
            "nan (float) is no number from 0 to 1e+30",
        ),
        (
            '[pcm]\nread_ns = { is = true, source = "s" }\n',
            "True (bool) is no number from 0 to 1e+30",
        ),
        ('[pcm]\nread_ns = { least = 9, most = 5, source = "s" }\n', "9 is more than 5"),
        ('[pcm]\nread_ns = { source = "s" }\n', "neither a number nor a range"),
        ('[pcm]\nread_ps = { is = 5, source = "s" }\n', "pcm.read_ps: no technology has it"),
        ('[pcm]\nnon_volatile = { is = 1, source = "s" }\n', "neither true nor false"),
        ("[pcm]\nname = 3\n", "pcm.name: a name is a text"),
        ("pcm = 3\n", "pcm: a technology is a table"),
        ("[sources]\nA = 3\n", "sources.A: a source is a text"),
        ("[pcm\n", "is not TOML"),
    ],
)
def test_a_wrong_file_is_refused_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text(text)
    with pytest.raises(TierscopeError, match=r"wrong\.toml") as caught:
        technologies(file)
    assert said in str(caught.value)


def test_a_file_that_is_not_there_or_not_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TierscopeError, match="cannot be read"):
        technologies(tmp_path / "none.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(TierscopeError, match="not a file of technologies"):
        technologies(tmp_path / "binary.toml")


def test_the_command_shows_them(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["show", "technologies"]) == 0
    text = capsys.readouterr().out
    assert "67.5 ns" in text
    assert "Z-NAND" in text
    file = tmp_path / "mine.toml"
    file.write_text('[mine]\nread_ns = { most = 7, source = "me" }\n')
    assert main(["show", "technologies", "--add", str(file), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["technologies"]["mine"]["read_ns"] == {"least": None, "most": 7.0, "source": "me"}
    assert main(["show", "technologies", "--add", str(file)]) == 0
    assert "≤ 7.00 ns" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [["show", "hybrid", "--add", "x.toml"], ["show", "technologies", "--set", "a=1"]],
)
def test_what_does_not_go_together_is_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 125
    assert "error[usage]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f'[x]\nread_ns = {{ is = 1{"0" * 400}, source = "s" }}\n', "no number from 0 to"),
        (f"[x]\nread_ns = {{ is = {'9' * 5000} }}\n", "more digits than can be read"),
        (f"x = {'[' * 5000}", "too deep"),
    ],
)
def test_numbers_and_nesting_beyond_all_measure_are_refused(
    tmp_path: Path, text: str, said: str
) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text)
    with pytest.raises(TierscopeError, match=said):
        technologies(file)


def test_what_never_ends_is_not_read() -> None:
    with pytest.raises(TierscopeError, match="no regular file"):
        technologies("/dev/zero")
