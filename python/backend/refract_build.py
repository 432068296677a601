# SPDX-License-Identifier: Apache-2.0
"""What pip and build call (PEP 517) to make a wheel or an sdist of this tree: CMake builds the extension.

It needs nothing but Python's own library, so that an installation with build isolation needs no index. The
folder of the build is build/, as of `make python`; REFRACT_BUILD names another one.
"""

import base64
import csv
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# What an sdist has: all that CMake reads for the extension.
SOURCES = ("CMakeLists.txt", "CMakePresets.json", "LICENSE", "README.md", "pyproject.toml", "cmake",
           "refract", "apps", "python", "scripts/setup")
LEFT_OUT = ("__pycache__", "corpus")
# Of each file in an archive, so that the same tree makes the same archive.
MOMENT = (2020, 1, 1, 0, 0, 0)


def _project():
    with open(os.path.join(ROOT, "pyproject.toml"), "rb") as file:
        project = tomllib.load(file)["project"]
    with open(os.path.join(ROOT, "CMakeLists.txt"), encoding="utf-8") as file:
        project["version"] = re.search(r"^project\(refract VERSION (\S+)", file.read(), re.MULTILINE)[1]
    return project


def _metadata():
    project = _project()
    with open(os.path.join(ROOT, project["readme"]), encoding="utf-8") as file:
        readme = file.read()
    return (f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
            f"Summary: {project['description']}\nLicense: {project['license']['text']}\n"
            f"Requires-Python: {project['requires-python']}\nDescription-Content-Type: text/markdown\n"
            f"\n{readme}")


def _stem():
    project = _project()
    return f"{project['name']}-{project['version']}"


def _tag():
    return "cp311-cp311-" + sysconfig.get_platform().replace("-", "_").replace(".", "_")


def _built():
    """The folder of the package, built."""
    if sys.version_info[:2] != (3, 11) or sys.implementation.name != "cpython":
        raise SystemExit(f"refract is for CPython 3.11, Debian's; this is {sys.version.split()[0]}")
    for tool in ("cmake", "ninja"):
        if shutil.which(tool) is None:
            raise SystemExit(f"{tool} is needed, and not there; scripts/setup python installs it")
    build = os.environ.get("REFRACT_BUILD") or os.path.join(ROOT, "build")
    if not os.path.exists(os.path.join(build, "build.ninja")):
        subprocess.run(["cmake", "-S", ROOT, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                        "-DREFRACT_TESTS=OFF", "-DREFRACT_BENCH=OFF"], check=True)
    made = subprocess.run(["ninja", "-C", build, "refract_python"], check=False)
    if made.returncode != 0:
        raise SystemExit("the extension was not built; scripts/setup python installs what it needs")
    package = os.path.join(build, "python", "refract")
    wanted = "_refract" + sysconfig.get_config_var("EXT_SUFFIX")
    if not os.path.exists(os.path.join(package, wanted)):
        raise SystemExit(f"{build} is a build for another interpreter: it has no {wanted}")
    return package, wanted


def _entry_points():
    groups = _project().get("entry-points", {})
    return "\n".join(f"[{group}]\n" + "".join(f"{name} = {place}\n" for name, place in rows.items())
                     for group, rows in groups.items())


def _metadata_files():
    with open(os.path.join(ROOT, "LICENSE"), "rb") as file:
        licence = file.read()
    wheel = f"Wheel-Version: 1.0\nGenerator: refract_build\nRoot-Is-Purelib: false\nTag: {_tag()}\n"
    return {"METADATA": _metadata().encode(), "WHEEL": wheel.encode(), "LICENSE": licence,
            "entry_points.txt": _entry_points().encode()}


def _record_of(files, name):
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    for path, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.writerow([path, f"sha256={digest}", len(data)])
    rows.writerow([name, "", ""])
    return text.getvalue().encode()


def get_requires_for_build_wheel(config_settings=None):
    return []


def get_requires_for_build_sdist(config_settings=None):
    return []


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    folder = f"{_stem()}.dist-info"
    os.makedirs(os.path.join(metadata_directory, folder), exist_ok=True)
    for name, data in _metadata_files().items():
        with open(os.path.join(metadata_directory, folder, name), "wb") as file:
            file.write(data)
    return folder


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    package, extension = _built()
    python = os.path.join(ROOT, "python")
    paths = {os.path.relpath(path, python): path for path in _files_below("python/refract")}
    paths[f"refract/{extension}"] = os.path.join(package, extension)
    files = {}
    for name, path in paths.items():
        with open(path, "rb") as file:
            files[name] = file.read()
    folder = f"{_stem()}.dist-info"
    files |= {f"{folder}/{name}": data for name, data in _metadata_files().items()}
    files[f"{folder}/RECORD"] = _record_of(files, f"{folder}/RECORD")
    wheel = f"{_stem()}-{_tag()}.whl"
    with zipfile.ZipFile(os.path.join(wheel_directory, wheel), "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in files.items():
            entry = zipfile.ZipInfo(path, MOMENT)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o755 if path.endswith(".so") else 0o644) << 16
            archive.writestr(entry, data)
    return wheel


def _files_below(source):
    for folder, below, names in os.walk(os.path.join(ROOT, source)):
        below[:] = sorted(set(below) - set(LEFT_OUT))
        for name in sorted(names):
            yield os.path.join(folder, name)


def _sources():
    for source in SOURCES:
        if os.path.isfile(os.path.join(ROOT, source)):
            yield source
        for path in _files_below(source):
            yield os.path.relpath(path, ROOT)


def build_sdist(sdist_directory, config_settings=None):
    sdist = f"{_stem()}.tar.gz"

    def without_its_owner(member):
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        return member

    with tarfile.open(os.path.join(sdist_directory, sdist), "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for path in _sources():
            archive.add(os.path.join(ROOT, path), f"{_stem()}/{path}", filter=without_its_owner)
        about = _metadata().encode()
        member = tarfile.TarInfo(f"{_stem()}/PKG-INFO")
        member.size = len(about)
        archive.addfile(member, io.BytesIO(about))
    return sdist
