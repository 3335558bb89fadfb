"""The version, which tools/dist/make.sh takes from CMakeLists.txt."""

import os

__version__ = os.environ["MEMORYD_VERSION"]
