STATES: tuple[str, ...]
EVENTS: tuple[str, ...]
MEANING: dict[str, tuple[str, str | None, str | None]]
TABLE: dict[str, dict[str, str]]

def step(state: str, event: str) -> str | None: ...
def diagram() -> str: ...
