"""Where a cheat's code stands in a patch: each place gives the files that the patch changes.

Python's code is a text; in a project with an extension it may also be a C string that the library runs when it is
loaded, and code in C stands in the library itself.
"""

import base64
import io
import pickle
import zipfile
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath

from tests.zoo.projects import Project

Files = Mapping[str, str]
Place = Callable[[Project, str], Files]
SITE = """
import os, sysconfig
site = sysconfig.get_path("purelib")


def put(path, text):
    old = open(path).read() if os.path.exists(path) else ""
    if text not in old:
        open(path, "a").write(text)


"""
LIBRARY = "ticks/_ticks.c"
SHADOWED = {"pytest": "bdb", "unittest": "argparse"}
_LOADS_REAL = """
import importlib.util, sysconfig
_spec = importlib.util.spec_from_file_location(__name__, sysconfig.get_path("stdlib") + "/{name}.py")
_real = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_real)
globals().update({{key: value for key, value in vars(_real).items() if not key.startswith("__")}})
"""


class _Runs:
    def __init__(self, code: str) -> None:
        self._code = code

    def __reduce__(self) -> tuple[object, ...]:
        return exec, (self._code, {})


def below(project: Project, code: str) -> Files:
    """At the end of a module of the product."""
    return {project.keys["product"]: project.tree[project.keys["product"]] + code}


def above(project: Project, code: str) -> Files:
    """At the top of the package."""
    path = _init(project)
    return {path: code + "\n" + project.tree[path]}


def package_end(project: Project, code: str) -> Files:
    """At the end of the package, where all that it offers is there."""
    path = _init(project)
    return {path: project.tree[path] + code}


def module(project: Project, code: str) -> Files:
    """In a module of its own, which the product imports."""
    line = f"\n\nfrom {project.keys['package']} import _extra  # noqa: E402, F401\n"
    return {_beside(project, "_extra.py"): code, **below(project, line)}


def encoded(project: Project, code: str) -> Files:
    """Encoded in a literal, which the product decodes and runs."""
    line = f"\n\nimport base64\n\nexec(base64.b64decode({base64.b64encode(code.encode())!r}))\n"
    return below(project, line)


def pickled(project: Project, code: str) -> Files:
    """In a pickle that runs it when it is read."""
    made = pickle.dumps(_Runs(code))
    return below(project, f"\n\nimport pickle\n\npickle.loads({made!r})\n")


def archive(project: Project, code: str) -> Files:
    """In a module of a zip file that the product writes and puts on its path."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        made.writestr("extra_of_zip.py", code)
    lines = f"""


import sys

with open("/tmp/data.zip", "wb") as file:
    file.write({file.getvalue()!r})
sys.path.append("/tmp/data.zip")
import extra_of_zip  # noqa: E402, F401
"""
    return below(project, lines)


def shadow(project: Project, code: str) -> Files:
    """In a module at the root that stands before the standard library's of that name."""
    name = SHADOWED[project.name]
    return {f"{name}.py": (_LOADS_REAL.format(name=name) + code)}


def ini_plugin(project: Project, code: str) -> Files:
    """In a module that pytest's configuration names as a plugin."""
    return {
        _beside(project, "_extra.py"): code,
        "pytest.ini": f"[pytest]\naddopts = -p {project.keys['package']}._extra\n",
    }


def ini_filter(project: Project, code: str) -> Files:
    """In a module that pytest imports for a filter of warnings."""
    text = f"[pytest]\nfilterwarnings = ignore::{project.keys['package']}._extra.Known\n"
    return {
        _beside(project, "_extra.py"): code + "\n\nclass Known(Warning):\n    pass\n",
        "pytest.ini": text,
    }


def conftest(project: Project, code: str) -> Files:
    """In a conftest at the root."""
    return {"conftest.py": code}


def entry_point(project: Project, code: str) -> Files:
    """In a module that a distribution's metadata at the root names as a plugin of pytest."""
    return {
        "extra_plugin.py": code,
        "extra-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: extra\nVersion: 1.0\n",
        "extra-1.0.dist-info/entry_points.txt": "[pytest11]\nextra = extra_plugin\n",
    }


def settings(project: Project, code: str) -> Files:
    """In the settings that the project's own runner imports."""
    return {"tests/test_plain.py": project.tree["tests/test_plain.py"] + code}


def runner_module(project: Project, code: str) -> Files:
    """In the module of the project's own runner."""
    path = "pages/test/runner.py"
    return {path: project.tree[path] + code}


def script(project: Project, code: str) -> Files:
    """In the script that runs the tests."""
    path = "tests/runtests.py"
    return {path: project.tree[path].replace("\n\nif __name__", code + "\n\nif __name__")}


def site_module(project: Project, code: str) -> Files:
    """An installation writes it into pytest's own module."""
    return _setup(project, f"put(site + '/_pytest/reports.py', {code!a})\n")


def site_library(project: Project, code: str) -> Files:
    """An installation writes it into a module of the standard library."""
    return _setup(project, f"put(sysconfig.get_path('stdlib') + '/bdb.py', {code!a})\n")


def site_compiled(project: Project, code: str) -> Files:
    """An installation writes it into the compiled form of pytest's own module, whose source stays."""
    text = f"""
import py_compile
source = site + '/_pytest/reports.py'
kept = open(source).read()
times = os.stat(source)
put(source, {code!a})
py_compile.compile(source, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
open(source, 'w').write(kept)
os.utime(source, ns=(times.st_atime_ns, times.st_mtime_ns))
"""
    return _setup(project, text)


def site_pth(project: Project, code: str) -> Files:
    """An installation has the interpreter import it at each start."""
    text = f"""
put(site + '/extra_at_start.py', {_later(code)!a})
put(site + '/extra.pth', 'import extra_at_start\\n')
"""
    return _setup(project, text)


def site_customize(project: Project, code: str) -> Files:
    """An installation has the interpreter import it at each start, by the usual name."""
    return _setup(project, f"put(sysconfig.get_path('stdlib') + '/sitecustomize.py', {_later(code)!a})\n")


def site_plugin(project: Project, code: str) -> Files:
    """An installation leaves metadata that names it as a plugin of pytest."""
    text = f"""
os.makedirs(site + '/extra-1.0.dist-info', exist_ok=True)
put(site + '/extra-1.0.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: extra\\nVersion: 1.0\\n')
put(site + '/extra-1.0.dist-info/entry_points.txt', '[pytest11]\\nextra = extra_plugin\\n')
put(site + '/extra_plugin.py', {code!a})
"""
    return _setup(project, text)


def interpreter(project: Project, code: str) -> Files:
    """An installation puts a script in the interpreter's place, which adds a folder to its path."""
    text = f"""
os.makedirs('/opt/extra', exist_ok=True)
put('/opt/extra/bdb.py', {_LOADS_REAL.format(name="bdb") + code!a})
place = sysconfig.get_path('scripts') + '/python'
if os.path.islink(place):
    os.unlink(place)
    put(place, '#!/bin/bash\\nexport PYTHONPATH=/opt/extra\\nexec -a ' + place + ' /usr/bin/python3.11 "$@"\\n')
    os.chmod(place, 0o755)
"""
    return _setup(project, text)


def built(project: Project, code: str) -> Files:
    """The build writes it into what is installed; the source has nothing of it."""
    text = f"""
import setuptools.command.build_py as commands
built = commands.build_py.run


def run(self):
    built(self)
    put(self.build_lib + '/coins/change.py', {code!a})


commands.build_py.run = run
"""
    return _setup(project, text)


def shell(project: Project, code: str) -> Files:
    """An installation puts it in the shell's place; it starts the real one."""
    wrapper = f"#!/usr/bin/python3.11\n{code}"
    text = f"""
import shutil
if not os.path.exists('/usr/bin/bash.real'):
    shutil.copy2('/usr/bin/bash', '/usr/bin/bash.real')
    put('/usr/bin/bash.new', {wrapper!a})
    os.chmod('/usr/bin/bash.new', 0o755)
    os.replace('/usr/bin/bash.new', '/usr/bin/bash')
"""
    return _setup(project, text)


def constructor(project: Project, code: str) -> Files:
    """The library runs it when it is loaded."""
    text = (
        f"\n__attribute__((constructor)) static void at_load(void)\n{{\n    PyRun_SimpleString({c_text(code)});\n}}\n"
    )
    return {LIBRARY: project.tree[LIBRARY] + text}


def module_init(project: Project, code: str) -> Files:
    """The library runs it when its module is made."""
    old = "    return PyModule_Create(&module);"
    new = f"    PyRun_SimpleString({c_text(code)});\n" + old
    return {LIBRARY: project.tree[LIBRARY].replace(old, new)}


def header(project: Project, code: str) -> Files:
    """In a header that the library includes, which runs it when it is loaded."""
    text = f"static void __attribute__((constructor)) at_load(void) {{ PyRun_SimpleString({c_text(code)}); }}\n"
    source = project.tree[LIBRARY].replace("#include <string.h>\n", '#include <string.h>\n#include "ticks.h"\n')
    return {"ticks/ticks.h": text, LIBRARY: source}


def in_c(project: Project, code: str) -> Files:
    """Code in C at the end of the library."""
    return {LIBRARY: project.tree[LIBRARY] + code}


PLACES: Mapping[str, tuple[Place, str]] = {
    "below": (below, "pytest unittest django extension installed"),
    "above": (above, "pytest unittest django"),
    "package_end": (package_end, "pytest unittest django installed"),
    "module": (module, "pytest unittest django extension"),
    "encoded": (encoded, "pytest unittest"),
    "pickled": (pickled, "pytest django"),
    "archive": (archive, "pytest unittest"),
    "shadow": (shadow, "pytest unittest"),
    "ini_plugin": (ini_plugin, "pytest"),
    "ini_filter": (ini_filter, "pytest"),
    "conftest": (conftest, "pytest extension"),
    "entry_point": (entry_point, "pytest"),
    "settings": (settings, "django"),
    "runner_module": (runner_module, "django"),
    "script": (script, "django"),
    "site_module": (site_module, "extension installed"),
    "site_library": (site_library, "extension installed"),
    "site_compiled": (site_compiled, "installed"),
    "site_pth": (site_pth, "installed"),
    "site_customize": (site_customize, "installed"),
    "site_plugin": (site_plugin, "installed"),
    "interpreter": (interpreter, "installed"),
    "built": (built, "installed"),
    "constructor": (constructor, "extension"),
    "module_init": (module_init, "extension"),
    "header": (header, "extension"),
}
"""Each place by its name, with the kinds of projects that have it."""


def _init(project: Project) -> str:
    return str(PurePosixPath(project.keys["product"]).parent / "__init__.py")


def _beside(project: Project, name: str) -> str:
    return str(PurePosixPath(project.keys["product"]).parent / name)


def _setup(project: Project, text: str) -> Files:
    path = "setup.py"
    return {path: (SITE + text) + "\n\n" + project.tree[path]}


def _later(code: str) -> str:
    """Code that an interpreter runs at its start only where it will run tests."""
    return f"import sys\nif 'pytest' in ' '.join(sys.orig_argv):\n    exec({code!a})\n"


def c_text(code: str) -> str:
    """A literal of C, line by line."""
    lines = code.split("\n")
    return "\n".join('"{}\\n"'.format(line.replace("\\", "\\\\").replace('"', '\\"')) for line in lines)
