"""The visited machine: its GPU, libraries, and build folders."""

import importlib.util
import json
import os
import pathlib
import re
import subprocess
import tarfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
PACK = ROOT / ".deps/gpu-built.tar.xz"
DESCRIPTION = re.compile(r"cuda:0 \((?P<card>.+?), [\d.]+ GiB, .*?; CUDA (?P<cuda>\S+) \(driver (?P<driver>\S+)\), "
                         r"(?P<products>[^,]+), (?P<convolutions>[^,]+)\)")


class NoGpu(Exception):
    pass


def slug(text):
    """As tables of algorithms are called: "NVIDIA H100 80GB HBM3" is "h100-80gb-hbm3"."""
    return re.sub(r"[^a-z0-9.]+", "-", text.removeprefix("NVIDIA ").lower()).strip("-")


def wheel(name):
    """The folder of one of Python's nvidia packages, or None."""
    try:
        found = importlib.util.find_spec(name)
    except ModuleNotFoundError:
        return None
    return pathlib.Path(list(found.submodule_search_locations)[0]) if found and found.submodule_search_locations else None


def unpack(pack=PACK):
    """What was built elsewhere, with its libraries; tests' files and the program where they were when it was compiled. The
    folder of the build."""
    build = ROOT / "build/gpu"
    if not (build / "tandem").exists() or pack.stat().st_mtime > (build / "tandem").stat().st_ctime:
        with tarfile.open(pack) as archive:
            archive.extractall(ROOT)
    for name, target in (("source_folder", ROOT), ("build_folder", build)):
        place = pathlib.Path((build / name).read_text().strip())
        if not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(target)
    return build


class Machine:
    """`build` is a folder of programs. Throws NoGpu with the reason where there is none."""

    def __init__(self, build, python):
        self.build, self.python = build, python
        self.environment = dict(os.environ)
        # Of programs that bring their own libraries.
        self.foreign = {"LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", "")}
        self._find_libraries()
        self.tandem = build / "tandem"
        if not self.tandem.exists():
            raise NoGpu(f"{self.tandem} is not there: build it, or pack it elsewhere (tests/gpu/pack_built)")
        told = subprocess.run([self.tandem, "env", "--json"], env=self.environment, capture_output=True, text=True)
        if told.returncode != 0:
            raise NoGpu(f"{self.tandem} env: {(told.stderr.strip().splitlines() or ['no reason'])[-1]}")
        facts = json.loads(told.stdout)
        found = DESCRIPTION.fullmatch(facts["devices"][-1])
        if not found:
            raise NoGpu(facts["cuda"] or f"a GPU that is not told as expected: {facts['devices'][-1]}")
        self.card, self.emulated = found["card"], found["card"] == "CUDA emulator"
        self.about = {"card": self.card, "driver": self._driver() or found["driver"], "cuda": found["cuda"],
                      "products": found["products"], "convolutions": found["convolutions"], "nccl": facts.get("nccl"),
                      "commit": self._commit()}

    def probe(self):
        return self.build / "tests/gpu" / ("gpu_probe_emulated" if self.emulated else "gpu_probe")

    def test(self, name):
        return self.build / "tests" / name

    def table(self):
        """The table of algorithms of this card and cuDNN, and a line about it; None where there is none."""
        version = self.about["convolutions"].rsplit(" ", 1)[-1]
        folder, prefix = ROOT / "tests/gpu/algorithms", slug(self.card)
        own = folder / f"{prefix}-{version}.txt"
        if own.exists():
            return own, f"algorithms: {own.relative_to(ROOT)}"
        others = sorted(each.name for each in folder.glob("*.txt"))
        return None, (f"algorithms are searched anew: there is no {own.relative_to(ROOT)}"
                      + (f", only {', '.join(others)}" if others else ""))

    def search_seconds(self):
        """What a network of images takes to find its algorithms."""
        return 0.0 if self.emulated or self.table()[0] else 30.0

    def _find_libraries(self):
        """CUDA's libraries, as Python's nvidia packages keep them, where the program was built elsewhere."""
        folders = [self.build, self.build / "lib"]
        if (cudnn := wheel("nvidia.cudnn")) is not None:
            folders.append(cudnn / "lib")
        if (nvidia := wheel("nvidia")) is not None:
            folders += sorted(nvidia.glob("*/lib"))
        if (nccl := wheel("nvidia.nccl")) is not None:
            self.environment.setdefault("TANDEM_NCCL_LIBRARY", str(nccl / "lib/libnccl.so.2"))
        if (self.build / "source_folder").exists():
            before = self.environment.get("LD_LIBRARY_PATH")
            self.environment["LD_LIBRARY_PATH"] = ":".join([*([before] if before else []), *map(str, folders)])

    def _driver(self):
        told = ask("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
        return told.splitlines()[0].strip() if told else None

    def _commit(self):
        packed = self.build / "commit"
        if packed.exists():
            return packed.read_text().strip()
        return commit_of(ROOT) or "unknown"


def ask(*command):
    """What a program prints; None where it is not there or fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def commit_of(folder):
    """"0123456789ab", with "+" where files differ from it; None outside a repository."""
    commit = ask("git", "-C", str(folder), "rev-parse", "--short=12", "HEAD")
    if commit is None:
        return None
    return commit.strip() + ("+" if ask("git", "-C", str(folder), "status", "--porcelain", "-uno") else "")
