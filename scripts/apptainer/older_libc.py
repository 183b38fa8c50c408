"""Makes an x86-64 ELF program that wants `__isoc23_*` of glibc 2.38 run on glibc 2.36, in place.

glibc 2.38 gave `strtol` and its kin new names for C23; the old ones mean the same but for binary literals. An
undefined symbol `__isoc23_strtol` is renamed to `strtol` by moving its name nine bytes on in the string table, and a
version that is too new is pointed at one that the program needs anyway. Any other symbol of such a version: exit 1.
Source  the System V ABI and the GNU symbol versioning documents.
"""

import re
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PREFIX = "__isoc23_"
NEWEST = (2, 36)
_DT_STRTAB, _DT_SYMTAB, _DT_VERSYM, _DT_VERNEED, _DT_VERNEEDNUM = 5, 6, 0x6FFFFFF0, 0x6FFFFFFE, 0x6FFFFFFF
_PT_LOAD, _PT_DYNAMIC, _SHT_DYNSYM = 1, 2, 11


class Need(NamedTuple):
    """One version that the program needs of one library."""

    at: int
    """Where its record lies in the file."""
    number: int
    """What symbols name it by."""
    digest: int
    name_at: int
    version: tuple[int, ...] | None
    """None: no version of glibc."""


class LibcProgram:
    def __init__(self, data: bytearray) -> None:
        if data[:6] != b"\x7fELF\x02\x01":
            raise SystemExit("not a little-endian 64-bit ELF file")
        self.data = data
        programs, sections = struct.unpack_from("<QQ", data, 0x20)
        _, count, section_size, section_count = struct.unpack_from("<HHHH", data, 0x36)
        self.segments = [struct.unpack_from("<IIQQQQQQ", data, programs + index * 56) for index in range(count)]
        self.sections = [
            struct.unpack_from("<IIQQQQIIQQ", data, sections + index * section_size) for index in range(section_count)
        ]
        self.dynamic = dict(self._dynamic())

    def _dynamic(self) -> Iterator[tuple[int, int]]:
        for kind, _, offset, _, _, size, _, _ in self.segments:
            if kind == _PT_DYNAMIC:
                for at in range(offset, offset + size, 16):
                    tag, value = struct.unpack_from("<qQ", self.data, at)
                    if tag == 0:
                        return
                    yield tag, value

    def place(self, tag: int) -> int:
        """Where in the file that a dynamic entry points."""
        address = self.dynamic[tag]
        for kind, _, offset, virtual, _, size, _, _ in self.segments:
            if kind == _PT_LOAD and virtual <= address < virtual + size:
                return int(address - virtual + offset)
        raise SystemExit(f"address {address:#x} is in no segment")

    def text(self, at: int) -> str:
        start = self.place(_DT_STRTAB) + at
        return self.data[start : self.data.index(b"\0", start)].decode()

    def needs(self) -> Iterator[list[Need]]:
        """The needed versions, library by library."""
        at = self.place(_DT_VERNEED)
        for _ in range(self.dynamic[_DT_VERNEEDNUM]):
            _, count, _, first, following = struct.unpack_from("<HHIII", self.data, at)
            found, entry = [], at + first
            for _ in range(count):
                digest, _, index, name_at, step = struct.unpack_from("<IHHII", self.data, entry)
                match = re.fullmatch(r"GLIBC_(\d+)\.(\d+)", self.text(name_at))
                version = tuple(map(int, match.groups())) if match else None
                found.append(Need(entry, index & 0x7FFF, digest, name_at, version))
                entry += step
            yield found
            at += following

    def symbol_count(self) -> int:
        return next(int(section[5]) // 24 for section in self.sections if section[1] == _SHT_DYNSYM)


def lower(program: LibcProgram) -> list[str]:
    """Rename what can be; the symbols that can't."""
    too_new: set[int] = set()
    for needs in program.needs():
        old = next((need for need in needs if need.version is not None and need.version <= NEWEST), None)
        for need in needs:
            if need.version is not None and need.version > NEWEST:
                if old is None:
                    return [program.text(need.name_at)]
                too_new.add(need.number)
                struct.pack_into("<I", program.data, need.at, old.digest)
                struct.pack_into("<I", program.data, need.at + 8, old.name_at)
    left = []
    symbols, versions = program.place(_DT_SYMTAB), program.place(_DT_VERSYM)
    for index in range(program.symbol_count()):
        version = struct.unpack_from("<H", program.data, versions + 2 * index)[0] & 0x7FFF
        if version not in too_new:
            continue
        name_at, _, _, section = struct.unpack_from("<IBBH", program.data, symbols + 24 * index)
        name = program.text(name_at)
        if not name.startswith(PREFIX) or section != 0:
            left.append(name)
            continue
        struct.pack_into("<I", program.data, symbols + 24 * index, name_at + len(PREFIX))
        struct.pack_into("<H", program.data, versions + 2 * index, 1)
    return left


def main(path: Path) -> int:
    program = LibcProgram(bytearray(path.read_bytes()))
    if left := lower(program):
        print(f"{path}: needs more than glibc {NEWEST[0]}.{NEWEST[1]}: {', '.join(left)}", file=sys.stderr)
        return 1
    path.write_bytes(program.data)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
