"""Where the `.proto` files are. Clients get them from the door `/proto` (`doors/protos.py`), which needs no
protobuf; `messages.py` makes classes of them."""

from pathlib import Path

FOLDER = Path(__file__).parent


def texts() -> dict[str, str]:
    """Returns the text of each file, by its name."""
    return {file.name: file.read_text() for file in sorted(FOLDER.glob("*.proto"))}
