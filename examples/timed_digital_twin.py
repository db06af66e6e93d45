"""A digital twin of a water tank: an hour in a second or so, then the same code in real time.

The tank, its valve and its controller are reactors; the model is integrated every 100 ms of logical time. `speed=1000` lets
physical time pass a thousand times as fast; what happens at which tag is the same at any speed.

    python examples/timed_digital_twin.py              an hour at 1,000 times real time, then three seconds in real time
"""

import sys

from penstock.timed import Duration, Environment, Input, Output, Reactor, Timer, child, minutes, ms, reaction, sec


class Tank(Reactor):
    """Water flows out in proportion to its level, and in through the valve."""

    valve = Input(float)
    level = Output(float)
    tick = Timer(period=ms(100))

    def __init__(self, level_m: float = 1.0) -> None:
        self.level_m = level_m
        self.inflow = 0.0

    @reaction(valve)
    def turn(self) -> None:
        self.inflow = self.valve.value

    @reaction(tick, effects=[level])
    def flow(self) -> None:
        self.level_m += 0.1 * (0.02 * self.inflow - 0.004 * self.level_m)
        self.level.set(self.level_m)


class Controller(Reactor):
    """Opens the valve as far as the level is below what is wanted. Its command takes 20 ms to get there."""

    level = Input(float)
    valve = Output(float)

    def __init__(self, wanted_m: float = 2.0) -> None:
        self.wanted_m = wanted_m

    @reaction(level, effects=[valve])
    def adjust(self) -> None:
        self.valve.set(max(0.0, min(1.0, self.wanted_m - self.level.value)))


class Twin(Reactor):
    """The tank under control; notes its level once a minute."""

    tank = child(Tank)
    controller = child(Controller)
    minute = Timer(period=minutes(1))

    def __init__(self) -> None:
        self.levels: list[float] = []
        self.connect(self.tank.level, self.controller.level)
        self.connect(self.controller.valve, self.tank.valve, after=ms(20))

    @reaction(minute, uses=[tank.level])
    def note(self) -> None:
        self.levels.append(self.tank.level.value)


def simulate(duration: Duration, speed: int = 1, *, fast: bool = False) -> Twin:
    """Run the twin; the result does not depend on `speed` or `fast`."""
    twin = Twin()
    Environment(twin, timeout=duration, speed=speed, fast=fast).run()
    return twin


if __name__ == "__main__":
    hours = simulate(minutes(60), speed=1_000)
    print(f"after an hour: {hours.levels[-1]:.3f} m")
    simulate(sec(3))
    print("three seconds in real time")
    sys.exit(0)
