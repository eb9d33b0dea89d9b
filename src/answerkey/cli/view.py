"""`view`: the runs of a folder in a local web page, until Ctrl-C."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from answerkey.cli.look import RUNS
from answerkey.cli.options import speaks
from answerkey.cli.talk import Talk
from answerkey.errors import RunError

if TYPE_CHECKING:
    from answerkey.viewer.server import Server


@click.command(
    "view",
    epilog="""\b
Examples:
  answerkey view
  answerkey view my-project/runs --open
  answerkey view --port 8080""",
)
@click.argument("folder", metavar="[DIR]", required=False)
@click.option(
    "--port",
    type=click.IntRange(min=0, max=65535),
    default=0,
    metavar="N",
    help="Port to listen on; a free one unless given.",
)
@click.option("--open/--no-browser", "is_opened", default=False, help="Open the page in a browser; or not.")
@click.option("--host", default="127.0.0.1", metavar="ADDRESS", help="Listen on another address.")
@click.option("--allow-network", is_flag=True, help="Let --host show your runs to other machines.")
@speaks
def view_command(
    talk: Talk, folder: str | None, *, port: int, is_opened: bool, host: str, allow_network: bool
) -> int:
    """Show the runs below DIR in a web page, until Ctrl-C; DIR is `runs` unless given.

    The page is for whoever has the address that is printed, with the token at its end, and is served to this
    machine only. DIR may also be a run folder.
    """
    from answerkey.datasets import is_stored
    from answerkey.viewer.server import open_server

    if folder is None and not Path(RUNS).is_dir():
        hint = "name the folder that holds your runs; `answerkey demo` makes one"
        raise RunError("E501", f"there is no folder `{RUNS}` here", hint=hint)
    if folder is not None and is_stored(folder):
        hint = f"`answerkey report {folder}/NAME` makes a page of a run; or copy the runs to this machine"
        raise RunError("E501", "the viewer reads folders of this machine", hint=hint)
    with open_server(folder or RUNS, host=host, port=port, allow_network=allow_network) as server:
        if talk.verbose:
            server.listen = talk.say_text
        try:
            _tell_address(talk, server)
            if is_opened:
                _open_browser(talk, server)
            server.serve_forever()
        except KeyboardInterrupt as stop:  # Ctrl-C is how a viewer ends, and no failure
            if getattr(stop, "number", signal.SIGINT) != signal.SIGINT:
                raise
            talk.say_text("ended")
    return 0


def _tell_address(talk: Talk, server: Server) -> None:
    if talk.as_json:
        address = {"url": server.url, "host": server.server_name, "port": server.server_port}
        talk.print_json({"view": {**address, "folder": str(server.app.catalog.folder)}})
    else:
        sys.stdout.write(f"{server.url}\n")
    sys.stdout.flush()
    if not server.app.is_local:
        talk.say_text("other machines can reach it by the name or an address of this one;")
        talk.say_text("what is sent is not encrypted, the token neither")
    talk.say_text("Ctrl-C ends it")


def _open_browser(talk: Talk, server: Server) -> None:
    from answerkey.viewer.server import open_browser

    if not open_browser(server.url):
        talk.say_text("no browser could be opened; open the address above")
