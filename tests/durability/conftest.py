import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from support.fixtures import *  # noqa: F403  (fixtures)
