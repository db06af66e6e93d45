"""A sensor pipeline with deadlines and a late input.

Readings come with the tag at which they were taken. A filter smooths them, a controller acts within 5 ms of the reading or
says that it could not, and a reading that arrives after its time has passed is not mixed in as if it were new: it goes to
a handler of its own, with the tag that was intended.

    python examples/timed_sensor_pipeline.py
"""

from functools import partial

from penstock import ManualClock
from penstock.timed import Environment, Input, Output, Reactor, Tag, child, ms, reaction


class Filter(Reactor):
    """A running mean of three."""

    reading = Input(float)
    smooth = Output(float)

    def __init__(self) -> None:
        self.last: list[float] = []
        self.late: list[tuple[float, Tag]] = []

    def too_late(self) -> None:
        """A reading for a tag that has passed."""
        intended = self.reading.intended_tag
        assert intended is not None
        self.late.append((self.reading.value, intended))
        print(f"{self.tag}: reading {self.reading.value} was meant for {intended}, left out")

    @reaction(reading, effects=[smooth], on_late=too_late)
    def mix(self) -> None:
        self.last = [*self.last[-2:], self.reading.value]
        self.smooth.set(sum(self.last) / len(self.last))


class Controller(Reactor):
    """Acts on what is smooth, in time."""

    smooth = Input(float)
    command = Output(str)

    def __init__(self) -> None:
        self.missed = 0

    def overdue(self) -> None:
        """Too much time has passed since the reading: a command would do harm."""
        self.missed += 1
        self.command.set("hold")

    @reaction(smooth, effects=[command], deadline=ms(5), on_deadline=overdue)
    def act(self) -> None:
        self.command.set("cool" if self.smooth.value > 21 else "heat")


class Main(Reactor):
    """The pipeline; `reading` is fed from outside."""

    reading = Input(float)
    filter = child(Filter)
    controller = child(Controller)

    def __init__(self) -> None:
        self.commands: list[tuple[Tag, str]] = []
        self.connect(self.reading, self.filter.reading)
        self.connect(self.filter.smooth, self.controller.smooth)

    @reaction(controller.command)
    def note(self) -> None:
        self.commands.append((self.tag, self.controller.command.value))
        print(f"{self.tag}: {self.controller.command.value}")


# When a reading comes in (ms), when it was taken (ms), and what it says. The fourth comes 8 ms after it was taken, which
# is beyond the controller's deadline; the last one is older than what has been handled.
ARRIVALS = [(11, 10, 19.0), (21, 20, 22.0), (31, 30, 25.0), (48, 40, 26.0), (61, 60, 20.0), (64, 35, 24.0)]


def deliver(environment: Environment, main: Main, taken: int, value: float, _: Tag) -> None:
    """What a driver would do when a reading comes in: hand it over with the tag at which it was taken."""
    environment.inject(main.reading, value, Tag(ms(taken), 0))


def simulate() -> Main:
    """Run the pipeline under a clock that moves by hand: the same in every run."""
    main = Main()
    environment = Environment(main, clock=ManualClock(), timeout=ms(80))
    for arrives, taken, value in ARRIVALS:
        environment.scheduler.schedule_system(Tag(ms(arrives), 0), partial(deliver, environment, main, taken, value))
    environment.run()
    return main


if __name__ == "__main__":
    simulate()
