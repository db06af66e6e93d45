from penstock.core.loop import Loop

class SharedLoop(Loop):
    def lock_counters(self) -> dict[str, int]: ...
