"""The faults of a simulation. Each begins at a random time. At the end all is mended, and whoever is missing
comes."""

import asyncio
from random import Random

from seeds.city import City, House
from seeds.draw import FAULTS


class Faults:
    def __init__(self, city: City, rng: Random) -> None:
        self._city, self._rng = city, rng
        self._drawn = city.drawn

    async def happen(self) -> None:
        for _ in range(self._drawn.faults):
            await asyncio.sleep(self._rng.expovariate(self._drawn.faults / self._drawn.asking_seconds))
            self.one(self._rng.choice(FAULTS))

    def one(self, fault: str) -> None:
        rng, city = self._rng, self._city
        if fault == "away":
            self._bus_away(rng.uniform(0.05, 3.0))
            return
        alive = [house for house in city.houses if house.process.alive and not house.over]
        if not alive:
            return
        house = rng.choice(alive)
        if fault == "kill":
            house.process.fuse = rng.randrange(40), lambda: city.kill(house)
            self._perhaps_another(house)
        elif fault == "come":
            city.history.note(f"another {house.role} comes")
            city.add(house.role, house.zone)
        elif fault == "drain":
            if house.well and house.member is not None:
                city.drain(house)
                self._perhaps_another(house)
        elif fault == "stall":
            self._stall(house, rng.uniform(0.05, 3 * city.bus.lease))
        else:
            self._harm_link(house, fault, rng.uniform(0.05, 4.0))

    def _perhaps_another(self, house: House) -> None:
        if self._rng.random() < 0.8:
            after = self._rng.uniform(0.0, 2.0)
            self._city.loop.call_later(after, self._city.add, house.role, house.zone)

    def _bus_away(self, seconds: float) -> None:
        self._city.history.trouble(seconds, "bus", "away")
        self._city.bus_away(True)
        self._city.loop.call_later(seconds, self._city.bus_away, False)

    def _stall(self, house: House, seconds: float) -> None:
        if not house.process.still:
            self._city.history.trouble(seconds, house.name, "stands still")
            house.process.stand_still()
            self._city.loop.call_later(seconds, house.process.go_on)

    def _harm_link(self, house: House, how: str, seconds: float) -> None:
        self._city.history.trouble(seconds, house.name, how)
        link = house.link
        if how == "slow":
            link.slow = self._rng.uniform(0.01, 0.15)
        link.there_cut = how in ("cut", "cut there")
        link.back_cut = how in ("cut", "cut back")
        self._city.loop.call_later(seconds, link.mend)

    async def all_well(self) -> None:
        """All faults end, and whoever is missing comes."""
        city = self._city
        city.history.note("all faults end")
        if city.sea.away:
            city.bus_away(False)
        for house in city.houses:
            house.link.mend()
            if house.process.still:
                house.process.go_on()
            if house.process.fuse is not None and house.process.alive:
                house.process.fuse = None
        for backend in city.backends:
            backend.troubled = False
        city.calm = True
        for role in ("gateway", "batcher", "worker"):
            if not city.of(role, open_only=False):
                city.add(role, (self._drawn.zones or ("",))[0])
