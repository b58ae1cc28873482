"""`tierscope completions`: what a shell needs to complete commands and options."""

from __future__ import annotations

from typing import Literal

USAGE = "Usage: tierscope completions bash|zsh|fish"
EXAMPLES = """\
For the shell in use now; for every shell to come:

  eval "$(tierscope completions bash)"
  tierscope completions bash > ~/.local/share/bash-completion/completions/tierscope
  tierscope completions zsh > ~/.zfunc/_tierscope
  tierscope completions fish > ~/.config/fish/completions/tierscope.fish

~/.zfunc must be in zsh's fpath before compinit: fpath=(~/.zfunc $fpath)
"""


def completions(shell: Literal["bash", "zsh", "fish"], /) -> int:
    """Prints a script by which a shell completes commands and options.

    Args:
        shell: bash, zsh or fish. Names of presets and workloads are asked of tierscope as they are
            completed.
    """
    from tierscope.cli.app import of

    print(of().generate_completion(prog_name="tierscope", shell=shell))
    return 0
