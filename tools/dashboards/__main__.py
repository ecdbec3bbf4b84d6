"""Writes the dashboards to deploy/grafana, one JSON file for each: `make dashboards` runs it."""

import json
from pathlib import Path

from tools.dashboards import fleet, model, overview, workers

FOLDER = Path(__file__).parents[2] / "deploy/grafana"
BOARDS = (overview.BOARD, model.BOARD, workers.BOARD, fleet.BOARD)


def files() -> dict[Path, str]:
    """Returns what belongs into each file. A test compares it with what is there."""
    return {
        FOLDER / f"{board.uid}.json": json.dumps(board.as_json(), indent=2, ensure_ascii=False) + "\n"
        for board in BOARDS
    }


if __name__ == "__main__":
    for file, text in files().items():
        file.write_text(text)
        print(file)
