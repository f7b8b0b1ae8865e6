"""The command `magnetar completion`."""

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print what makes a SHELL complete the commands and options of magnetar.

    \b
    bash:  magnetar completion bash > ~/.local/share/bash-completion/completions/magnetar
    zsh:   magnetar completion zsh > "${fpath[1]}/_magnetar"
    fish:  magnetar completion fish > ~/.config/fish/completions/magnetar.fish
    """
    from magnetar.cli import main  # noqa: PLC0415

    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(main, {}, "magnetar", "_MAGNETAR_COMPLETE").source())
