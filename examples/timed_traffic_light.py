"""A traffic light with modes: day and night, and what happens when somebody presses the button.

At night the light blinks amber; by day it goes round red, green, amber. Pressing the button while it is green shortens
green. Each phase of the day is a mode inside the mode `day`, entered by reset, so that its clock begins anew.

    penstock run examples/timed_traffic_light.py:Main --fast
    penstock graph examples/timed_traffic_light.py:Main
"""

from penstock.timed import Input, Mode, Output, Reactor, Shutdown, Startup, Timer, child, reaction, run, sec


class Phases(Reactor):
    """Red, green, amber."""

    button = Input(bool)
    lamp = Output(str)
    red = Mode(initial=True)
    green = Mode()
    amber = Mode()
    begin = Startup(mode=red)
    red_over = Timer(offset=sec(4), mode=red)
    green_over = Timer(offset=sec(6), mode=green)
    amber_over = Timer(offset=sec(1), mode=amber)

    @reaction(begin, effects=[lamp])
    def first(self) -> None:
        self.lamp.set("red")

    @reaction(red_over, effects=[lamp, green], mode=red)
    def go(self) -> None:
        self.lamp.set("green")
        self.green.enter()

    @reaction(green_over, button, effects=[lamp, amber], mode=green)
    def warn(self) -> None:
        self.lamp.set("amber")
        self.amber.enter()

    @reaction(amber_over, effects=[lamp, red], mode=amber)
    def stop(self) -> None:
        self.lamp.set("red")
        self.red.enter()


class Blinker(Reactor):
    """Amber on and off."""

    tick = Timer(period=sec(1))
    lamp = Output(str)

    def __init__(self) -> None:
        self.on = False

    @reaction(tick, effects=[lamp])
    def blink(self) -> None:
        self.on = not self.on
        self.lamp.set("amber" if self.on else "dark")


class Light(Reactor):
    """Changes between day and night; the two never show at once, so one output serves both."""

    dusk = Timer(offset=sec(20), period=sec(30))
    dawn = Timer(offset=sec(25), period=sec(30))
    button = Input(bool)
    lamp = Output(str)
    day = Mode(initial=True)
    night = Mode()
    phases = day.child(Phases)
    blinker = night.child(Blinker)

    def __init__(self) -> None:
        self.connect(self.button, self.phases.button)
        self.connect(self.phases.lamp, self.lamp, mode=self.day)
        self.connect(self.blinker.lamp, self.lamp, mode=self.night)

    @reaction(dusk, effects=[night])
    def evening(self) -> None:
        self.night.enter(history=True)

    @reaction(dawn, effects=[day])
    def morning(self) -> None:
        self.day.enter(history=True)


class Walker(Reactor):
    """Presses the button every nine seconds."""

    tick = Timer(offset=sec(6), period=sec(9))
    button = Output(bool)

    @reaction(tick, effects=[button])
    def press(self) -> None:
        self.button.set(True)


class Main(Reactor):
    """Prints every change of the lamp for a minute."""

    light = child(Light)
    walker = child(Walker)
    over = Timer(offset=sec(60))
    end = Shutdown()

    def __init__(self) -> None:
        self.changes: list[tuple[int, str]] = []
        self.connect(self.walker.button, self.light.button)

    @reaction(light.lamp)
    def show(self) -> None:
        self.changes.append((self.elapsed // sec(1), self.light.lamp.value))
        print(f"{self.elapsed // sec(1):3} s  {self.light.lamp.value}")

    @reaction(over)
    def enough(self) -> None:
        self.request_stop()

    @reaction(end)
    def total(self) -> None:
        print(f"{len(self.changes)} changes")


if __name__ == "__main__":
    run(Main(), fast=True)
