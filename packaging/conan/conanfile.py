# SPDX-License-Identifier: MIT
# A recipe for Conan 2: conan create path/to/plimsoll/packaging/conan
import shutil
from os.path import join
from pathlib import Path

from conan import ConanFile
from conan.tools.files import copy


class PlimsollConan(ConanFile):
    name = "plimsoll"
    version = "0.2.0"
    license = "MIT"
    description = "Concurrency limiters: semaphore, weighted semaphore, bulkhead, event loop, adaptive limit"
    topics = ("semaphore", "bulkhead", "thread-pool", "event-loop", "concurrency")
    package_type = "header-library"
    settings = "os"
    no_copy_source = True

    def export_sources(self):
        checkout = Path(self.recipe_folder).parents[1]
        for file in [*checkout.glob("*.h"), checkout / "LICENSE"]:
            shutil.copy(file, self.export_sources_folder)

    def package(self):
        include = join(self.package_folder, "include", "plimsoll")
        copy(self, "*.h", self.source_folder, include)
        copy(self, "LICENSE", self.source_folder, join(self.package_folder, "licenses"))

    def package_id(self):
        self.info.clear()

    def package_info(self):
        self.cpp_info.bindirs = []
        self.cpp_info.libdirs = []
        self.cpp_info.set_property("cmake_target_name", "plimsoll::plimsoll")
        self.cpp_info.set_property("pkg_config_name", "plimsoll")
        if self.settings.os in ("Linux", "FreeBSD"):
            self.cpp_info.system_libs = ["pthread"]
        elif self.settings.os == "Windows":
            self.cpp_info.system_libs = ["synchronization"]
