from penstock.core.poller.interface import Poller

class SelectPoller(Poller):
    def __init__(self) -> None: ...
