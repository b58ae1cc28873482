"""The wheel: it installs and works where there is neither Rust nor a network."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable
from pathlib import Path

import pytest
import tierscope as ts
from conftest import HAS_QEMU

ROOT = Path(__file__).parents[2]
Installed = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of what is built: of the same target directory, so that nothing is built twice."""
    if shutil.which("cargo") is None:
        pytest.skip("a wheel is made where there is Rust")
    out = tmp_path_factory.mktemp("dist")
    environment = {
        **os.environ,
        "VIRTUAL_ENV": sys.prefix,
        "PYO3_PYTHON": str(Path(sys.prefix) / "bin" / "python"),
        "PYO3_BUILD_EXTENSION_MODULE": "1",
    }
    built = [sys.executable, "-m", "maturin", "build", "--release", "--quiet", "--out", str(out)]
    subprocess.run(built, cwd=ROOT, env=environment, check=True, timeout=1800)
    (made,) = out.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Runs programs of a new environment that has the wheel, and neither Rust nor this checkout.

    What the package depends on is that of the environment of the tests.
    """
    place = tmp_path_factory.mktemp("installed")
    venv.create(place, with_pip=True)
    programs = place / "programs"
    programs.mkdir()
    for name in ("sh", "true"):
        (programs / name).symlink_to(shutil.which(name) or f"/bin/{name}")
    qemu = os.environ.get("TIERSCOPE_QEMU") or shutil.which("qemu-x86_64")
    path = os.pathsep.join(map(str, (place / "bin", programs)))
    kept = {name: os.environ[name] for name in ("HOME", "TMPDIR") if name in os.environ}
    environment = {**kept, "PATH": path, "COLUMNS": "80", "PYTHONUTF8": "1"}
    if qemu is not None:
        environment["TIERSCOPE_QEMU"] = qemu
    assert all(shutil.which(name, path=path) is None for name in ("cargo", "rustc", "cc"))

    def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(place / "bin" / program), *arguments],
            cwd=place,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    added = run("python", "-m", "pip", "install", "--no-index", "--no-deps", str(wheel))
    assert added.returncode == 0, added.stderr
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    others = place / "lib" / version / "site-packages" / "others.pth"
    others.write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return run


def test_the_wheel_works_without_rust(installed: Installed) -> None:
    where = installed("python", "-c", "import tierscope; print(tierscope.__file__)")
    assert where.returncode == 0, where.stderr
    assert str(ROOT) not in where.stdout, "not the checkout's"
    assert "site-packages/tierscope/" in where.stdout
    assert installed("tierscope", "--version").stdout.strip() == ts.__version__
    work = ("-w", "gups", "--set", "workload.updates=500", "--json")
    ran = installed("tierscope", "run", "-s", "hybrid/quick", *work)
    assert ran.returncode == 0, ran.stderr
    here = ts.run("hybrid/quick", ts.workload("gups", updates=500))
    there = json.loads(ran.stdout)["systems"]["hybrid/quick"]
    assert there["time_ps"] == here["hybrid/quick"]["time_ps"]


def test_the_wheel_has_what_programs_and_people_need(installed: Installed) -> None:
    found = installed("tierscope", "doctor", "--json")
    doctor = json.loads(found.stdout)
    assert doctor["ready"] == HAS_QEMU, found.stdout
    assert found.returncode == (0 if HAS_QEMU else 1)
    header = installed("python", "-c", "import tierscope as t; print(t.include_dir())")
    assert (Path(header.stdout.strip()) / "tierscope.h").is_file()
    prefix = installed("python", "-c", "import sys; print(sys.prefix)").stdout.strip()
    manual = Path(prefix) / "share" / "man" / "man1" / "tierscope.1"
    assert manual.read_text(encoding="utf-8").startswith((".TH", ".\\"))
