"""How identical requests share answers (`runtime/collapse/`), made from the configuration. Whoever makes the desk
of a model takes its sharing from here (`roles/model.py`, `cluster/announced_desks.py`), whoever makes its slots
over a bus the sameness (`cluster/worker_slots.py`), and each gateway its memory of answers (`roles/embedded.py`,
`cluster/gateway.py`)."""

from operator import attrgetter

from penstock.config import Config, Model
from penstock.core.remembered_answers import RememberedAnswers
from penstock.runtime.collapse.flight import AnswerMemory
from penstock.runtime.collapse.once_each import Sameness
from penstock.runtime.collapse.sharing import Sharing


def sharing_of(name: str, model: Model, *, sees_dispatch: bool = True) -> Sharing | None:
    """Returns what identical requests to this model share; None if every request must be executed.
    `sees_dispatch`: whether this process can see that a request has gone to a worker."""
    if not model.deterministic:
        return None
    ttl = 0.0 if model.cache == "off" else model.cache_ttl
    return Sharing(name, model.version, shared=model.cache == "shared", ttl=ttl, sees_dispatch=sees_dispatch)


def sameness_of(model: Model) -> Sameness | None:
    """Returns a function that gives two requests of one batch the same value if a worker may run them as one; None
    if it may not do that at all."""
    if not model.deterministic or model.parameters != "shared":
        return None
    return attrgetter("input") if model.cache == "shared" else attrgetter("tenant", "input")


def as_announced(name: str, model: Model, former: Sharing | None) -> Sharing | None:
    """Returns the sharing of a model whose worker has announced it again; None if every request must be executed.
    `former`: the sharing until now. It goes on, with its counts, unless the settings differ."""
    made = sharing_of(name, model, sees_dispatch=False)
    if made is None or former is None or (made.shared, made.ttl) != (former.shared, former.ttl):
        return made
    if model.version:
        former.learn(model.version)
    return former


def memory_of(config: Config) -> AnswerMemory:
    """Returns the memory of answers of one gateway, which is empty yet."""
    return RememberedAnswers(config.limits.max_cache_entries, config.limits.max_cache_bytes)
