"""``engine``: the commands by name, each imported only when it is used.

``engine --help`` has to answer at once, so nothing here imports torch, anthropic, rich
or SQLite.
"""

from __future__ import annotations

import gc
import sys
import warnings
from importlib import import_module

import click

from engine.cli.exits import Exit, Failure

__all__ = ["cli", "main"]

_COMMANDS = {  # by name: the module that has it, and what help says
    "run": ("run.run", "Search for a faster version of a task's module."),
    "resume": ("run.run", "Go on with a run that was interrupted, paused or finished."),
    "fork": ("run.fork", "Go on from an earlier event of a run, configured otherwise."),
    "steer": ("run.steer", "Tell a run a hint, ban or pin a node, end it softly."),
    "eval": ("evaluate.evaluate", "Judge candidates without a search."),
    "baseline": ("evaluate.baseline", "Time a task's reference, eager and compiled."),
    "cache": ("maintain.cache", "What is kept between runs; --prune empties it."),
    "ls": ("inspect.inspect", "List the runs in a directory's logs."),
    "status": ("inspect.inspect", "How a run stands: attempts, best, spend."),
    "tree": ("inspect.inspect", "Draw the search tree."),
    "show": ("inspect.show", "Show one attempt: plan, source, observations, outcome."),
    "prompt": ("inspect.inspect", "Show the prompt that a role got in an attempt."),
    "best": ("inspect.inspect", "Print or save the best kernel."),
    "tail": ("inspect.tail", "A log's newest events, also while it is written."),
    "trace": ("analyse.trace", "Send a run as OpenTelemetry spans to a collector."),
    "sql": ("inspect.sql", "Ask a log in SQL; read-only."),
    "search": ("inspect.search", "Find words in prompts, replies, sources and logs."),
    "report": ("analyse.report", "What became of runs: funnel, leaderboard, spend, failures."),
    "export": ("analyse.export", "Tables for other programs, training pairs, a redacted copy."),
    "diff": ("inspect.diff", "Where two runs part; or two nodes' sources."),
    "compare": ("analyse.compare", "Runs side by side: results and curves."),
    "replay": ("analyse.replay", "Recompute a run's decisions from its log."),
    "reparse": ("analyse.reparse", "What today's reader makes of a log's replies."),
    "simulate": ("analyse.simulate", "What another policy would have done on recorded trees."),
    "verify": ("maintain.check", "Check a log's chains, sequence and blobs."),
    "recover": ("maintain.check", "Save what is intact of a damaged log into a new one."),
    "doctor": ("maintain.check", "Check this machine: compilers, devices, isolation."),
}


class _Commands(click.Group):
    """Knows the commands' names and one-line helps without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, _ = _COMMANDS[cmd_name]
        name = "eval_" if cmd_name == "eval" else cmd_name
        command: click.Command = getattr(import_module(f"engine.cli.{module}"), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, help_) for name, (_, help_) in _COMMANDS.items()])


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="stark-engine", prog_name="engine")
def cli() -> None:
    """Make PyTorch modules faster with a team of language-model agents (STARK).

    LOG is a file, or FILE#RUN where it holds several runs. Exit codes: 0 done; 1 internal
    error; 2 usage or configuration; 3 a prerequisite is missing; 4 no correct kernel
    faster than the reference; 5 replay or verification found a difference; 75 paused;
    130 interrupted.
    """


def main() -> None:
    """The console script."""
    # Of the sources that it reads, which are models': from Python 3.12 on, odd escapes.
    warnings.filterwarnings("ignore", category=SyntaxWarning)
    try:
        code = _unwrapped()
        sys.exit(code if isinstance(code, int) else Exit.DONE)
    except (click.exceptions.Abort, KeyboardInterrupt):
        click.echo("engine: interrupted", err=True)
        sys.exit(Exit.INTERRUPTED)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except Failure as failure:
        from engine.cli.views.draw import printable

        click.echo(printable(f"engine: {failure}"), err=True)
        sys.exit(failure.code)
    except BrokenPipeError:
        # `engine tree LOG | head`: the reader has what it wants.
        sys.stderr.close()
        sys.exit(Exit.DONE)
    finally:
        # On its way out, the interpreter would search all objects for cycles: with a
        # provider's SDK loaded, that alone takes the second that a Ctrl-C may take.
        gc.freeze()


def _unwrapped() -> object:
    """Run the command; a failure that a task group wrapped comes out as itself."""
    try:
        return cli.main(standalone_mode=False)
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        if isinstance(error, Failure | click.exceptions.Abort | KeyboardInterrupt):
            raise error from None
        raise


if __name__ == "__main__":
    main()
