# SPDX-License-Identifier: MIT
# Runs the recipe in the order of `conan create`: run_recipe.py RECIPE DIRECTORY VERSION
import importlib.util
import os
import sys
from types import SimpleNamespace

path, work, version = sys.argv[1:]
spec = importlib.util.spec_from_file_location("conanfile", path)
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)


def recipe_for(system):
    recipe = module.PlimsollConan()
    recipe.settings = SimpleNamespace(os=system)
    recipe.info = SimpleNamespace(clear=lambda: None)
    properties = {}
    recipe.cpp_info = SimpleNamespace(properties=properties, set_property=properties.__setitem__)
    recipe.recipe_folder = os.path.dirname(path)
    recipe.export_sources_folder = recipe.source_folder = os.path.join(work, "sources")
    recipe.package_folder = os.path.join(work, "package")
    return recipe


recipe = recipe_for("Linux")
assert (recipe.name, recipe.version) == ("plimsoll", version)
os.makedirs(recipe.export_sources_folder)
recipe.export_sources()
recipe.package()
recipe.package_id()
for system, libraries in ("Linux", ["pthread"]), ("Windows", ["synchronization"]), ("Macos", None):
    recipe = recipe_for(system)
    recipe.package_info()
    assert getattr(recipe.cpp_info, "system_libs", None) == libraries, system
    assert recipe.cpp_info.libdirs == recipe.cpp_info.bindirs == []
    assert recipe.cpp_info.properties["cmake_target_name"] == "plimsoll::plimsoll"
