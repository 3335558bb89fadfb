"""Says that the wheel is of one platform, and of every Python 3."""

import sysconfig

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PlatformHook(BuildHookInterface):
    def initialize(self, version, build_data):
        build_data["pure_python"] = False
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        # auditwheel puts in its place what the binary really asks for.
        build_data["tag"] = f"py3-none-{platform}"
