"""Drawing a program: a DOT graph, an SVG if graphviz is there, a tree of text.

This file must not know how a program runs.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable

from penstock.errors import Unsupported
from penstock.timed.assembly import Program, assemble
from penstock.timed.handles import Action, Port, Signal
from penstock.timed.modes import ModeHandle
from penstock.timed.plan import KIND_NAMES, ReactionPlan
from penstock.timed.reactor import Reactor, declarations
from penstock.timed.time import format_ns
from penstock.timed.tree import Node

# A drawing of a large program may take a while; beyond this it is no use to anybody.
GRAPHVIZ_TIMEOUT_S = 60


def program_of(main: Reactor | Program) -> Program:
    """Assemble what is not assembled yet."""
    return main if isinstance(main, Program) else assemble(main)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _reaction_label(reaction: ReactionPlan) -> str:
    deadline = f"\\ndeadline {format_ns(reaction.deadline_ns)}" if reaction.deadline_ns >= 0 else ""
    return f'"{reaction.name}\\nlevel {reaction.level}{deadline}"'


def dot(main: Reactor | Program) -> str:
    """The program in graphviz' language: reactors are boxes, reactions hexagons, arrows are data and time."""
    program = program_of(main)
    lines = ["digraph program {", "  rankdir=LR; compound=true; node [fontsize=10]; edge [fontsize=9];"]
    lines += _cluster(program, program.nodes[0], "  ")
    for draft in program.drafts:
        name = draft.plan.full_name
        triggers = set(draft.triggers)
        for handle in dict.fromkeys(draft.reads):
            style = "" if handle in triggers else " [style=dashed]"
            lines.append(f"  {_quoted(handle.path)} -> {_quoted(name)}{style};")
        lines += [f"  {_quoted(name)} -> {_quoted(handle.path)};" for handle in dict.fromkeys(draft.writes)]
    for link in program.wiring.links:
        label = link.connection.label()
        extra = f" [label={_quoted(label)}, style=dotted]" if label else " [penwidth=2]"
        lines.append(f"  {_quoted(link.source.path)} -> {_quoted(link.sink.path)}{extra};")
    return "\n".join([*lines, "}", ""])


def _cluster(program: Program, node: Node, indent: str) -> Iterable[str]:
    """One reactor with all that is in it."""
    kind = type(node.reactor).__name__
    yield f"{indent}subgraph {_quoted('cluster ' + node.path)} {{"
    yield f"{indent}  label={_quoted(f'{node.path} : {kind}')};"
    for handle, shape in _elements(node):
        yield f"{indent}  {_quoted(handle.path)} [label={_quoted(handle.name)}, shape={shape}];"
    for draft in program.drafts:
        if draft.node is node:
            yield f"{indent}  {_quoted(draft.plan.full_name)} [label={_reaction_label(draft.plan)}, shape=hexagon];"
    for child in node.children:
        yield from _cluster(program, child, indent + "  ")
    yield f"{indent}}}"


def _elements(node: Node) -> Iterable[tuple[Port[object] | Action[object] | Signal | ModeHandle, str]]:
    for name in declarations(type(node.reactor)):
        value = vars(node.reactor)[name]
        for handle in value if isinstance(value, tuple) else (value,):
            if isinstance(handle, Port) and handle.owner is node.reactor:
                yield handle, "cds" if handle.is_input else "rarrow"
            elif isinstance(handle, Action):
                yield handle, "diamond" if handle.physical else "triangle"
            elif isinstance(handle, Signal):
                yield handle, "circle"
            elif isinstance(handle, ModeHandle):
                yield handle, "folder"


def svg(main: Reactor | Program) -> bytes:
    """The drawing as SVG, by graphviz."""
    command = shutil.which("dot")
    if command is None:
        raise Unsupported("SVG needs graphviz (its command `dot` is not on PATH); ask for --format dot or text instead")
    done = subprocess.run(
        [command, "-Tsvg"], input=dot(main).encode(), capture_output=True, check=False, timeout=GRAPHVIZ_TIMEOUT_S
    )
    if done.returncode:
        raise Unsupported(f"graphviz failed: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


def text(main: Reactor | Program) -> str:
    """The program as a tree: reactors, their elements, and reactions with level and deadline in lexical order."""
    program = program_of(main)
    return "\n".join(_text(program, program.nodes[0], "")) + "\n"


def _text(program: Program, node: Node, indent: str) -> Iterable[str]:
    yield f"{indent}{node.path.rpartition('.')[2]} : {type(node.reactor).__name__}"
    for handle, _ in _elements(node):
        yield f"{indent}  {_kind(program, handle)} {handle.name}"
    for draft in program.drafts:
        if draft.node is node:
            yield f"{indent}  {_reaction_line(draft.plan, draft.triggers, draft.writes)}"
    for link in program.wiring.links:
        if link.connection.owner is node.reactor:
            label = link.connection.label()
            yield f"{indent}  {link.source.path} -> {link.sink.path}{f' ({label})' if label else ''}"
    for child in node.children:
        yield from _text(program, child, indent + "  ")


def _kind(program: Program, handle: object) -> str:
    if isinstance(handle, Port):
        return "input" if handle.is_input else "output"
    if isinstance(handle, (Action, Signal)):
        return KIND_NAMES[program.plan.triggers[program.triggers[handle]].kind]
    return "mode"


def _reaction_line(plan: ReactionPlan, triggers: Iterable[object], writes: Iterable[object]) -> str:
    names = ", ".join(getattr(item, "name", "?") for item in triggers)
    effects = ", ".join(getattr(item, "name", "?") for item in writes)
    deadline = f", deadline {format_ns(plan.deadline_ns)}" if plan.deadline_ns >= 0 else ""
    return f"reaction {plan.name}({names}){f' -> {effects}' if effects else ''} [level {plan.level}{deadline}]"
