"""The doors `/proto` and `/proto/{file}`: the `.proto` files of what is spoken over gRPC, for whoever writes a
client. The data plane calls them, as every door. They are open to all, as `/docs` is."""

from penstock.doors.door import Respond, TellingDoor, Visit
from penstock.edge.answer import Answer
from penstock.errors import NotFound
from penstock.protos.files import texts

TEXT = ("content-type", "text/plain; charset=utf-8")


class Protos(TellingDoor):
    """Names the files."""

    name = "docs"
    path = "/proto"
    public = True

    async def tell(self, visit: Visit, respond: Respond) -> None:
        respond(Answer(200, [TEXT], "".join(f"{self.path}/{name}\n" for name in texts()).encode()))


class Proto(TellingDoor):
    """Gives one file."""

    name = "docs"
    path = f"{Protos.path}/{{file}}"
    public = True

    async def tell(self, visit: Visit, respond: Respond) -> None:
        found = texts().get(visit.path.removeprefix(f"{Protos.path}/"))
        if found is None:
            raise NotFound(f"there is no such file; {Protos.path} lists them")
        respond(Answer(200, [TEXT], found.encode()))
