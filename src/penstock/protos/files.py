"""Reads the `.proto` files of this folder. Clients get them from the door `/proto` (`doors/protos.py`), which needs
no protobuf; `messages.py` makes classes of them."""

from pathlib import Path

FOLDER = Path(__file__).parent


def texts() -> dict[str, str]:
    """Returns the text of each `.proto` file, by the name of the file."""
    return {file.name: file.read_text() for file in sorted(FOLDER.glob("*.proto"))}
