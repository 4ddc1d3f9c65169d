"""A process that reads foreign documents gives up what reading does not need: network, other processes, and files.

Linux does this without privileges, for the calling process alone and for good: Landlock limits the files that it can
open (Linux 5.13; `landlock(7)`), and a seccomp filter refuses system calls (`seccomp(2)`). Code is still read, because
parsers are imported on first use. Structures and numbers are those of the kernel's headers, which never change.
"""

import ctypes
import os
import platform
import struct
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

# What libraries read besides code: the loader's cache, time zones, types of files, fonts, the number of processors.
_SYSTEM = (
    *("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/share", "/etc/ld.so.cache", "/etc/localtime"),
    *("/etc/mime.types", "/dev/null", "/dev/urandom", "/proc/cpuinfo", "/sys/devices/system/cpu"),
)

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # on every architecture
_READ_FILE, _READ_FOLDER = 1 << 2, 1 << 3
_PATH_BENEATH = 1
_NO_NEW_PRIVS, _GET_SECCOMP = 38, 21  # of prctl
_ALL_THREADS = 1

# Name -> number on x86_64 and aarch64; None if the architecture has no such call.
_REFUSED: dict[str, tuple[int | None, int | None]] = {
    # connections
    "socket": (41, 198),
    "connect": (42, 203),
    "io_uring_setup": (425, 425),  # does whatever other calls do, and no filter sees it
    # processes
    "fork": (57, None),
    "vfork": (58, None),
    "execve": (59, 221),
    "execveat": (322, 281),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "tkill": (200, 130),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "pidfd_open": (434, 434),
    # rights and times of files, which Landlock leaves alone
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "fchown": (93, 55),
    "lchown": (94, None),
    "fchownat": (260, 54),
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "utimensat": (280, 88),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "open_by_handle_at": (304, 265),
    # the kernel's own doors
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "unshare": (272, 97),
    "setns": (308, 268),
}
_CLONE, _CLONE3, _KILL, _TGKILL, _PRLIMIT, _SECCOMP = (
    (56, 220),
    (435, 435),
    (62, 129),
    (234, 131),
    (302, 261),
    (317, 277),
)
_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column above, and the name in a filter
_X32 = 0x40000000  # x86_64 has a second set of numbers from here
_THREAD = 0x10000  # of clone's flags: a thread, not a process

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06  # instructions of a filter
_ALLOW, _DIE, _EPERM, _ENOSYS = 0x7FFF0000, 0x80000000, 0x00050001, 0x00050026
_AT_CALL, _AT_MACHINE, _AT_FIRST_ARGUMENT = 0, 4, 16  # bytes


@cache
def lacking() -> str:
    """What this system cannot forbid a process, for people; "" if it can forbid everything."""
    if sys.platform != "linux" or platform.machine() not in _MACHINES or sys.maxsize < 2**32:
        return "network, programs and files"
    libc = _libc()
    parts = [] if libc.prctl(_GET_SECCOMP, 0, 0, 0, 0) >= 0 else ["network and programs"]
    parts += [] if _landlock_version() > 0 else ["files"]
    return " and ".join(parts)


def confine() -> None:
    """From now on this process opens no file but to read code, makes no connection, and starts no process.

    What is already open stays open. What the system lacks is left out. Raises OSError.
    """
    if sys.platform != "linux" or ("programs" in lacking() and "files" in lacking()):
        return
    _called(_libc().prctl(_NO_NEW_PRIVS, 1, 0, 0, 0))
    if "files" not in lacking():
        _read_only([*_code(), *_SYSTEM])
    if "programs" not in lacking():
        _refuse_calls()


def _code() -> Iterator[str]:
    """Folders with code: Python's own, and loaded packages; the current folder, often on the path, holds documents."""
    here = os.path.realpath(".")
    yield from (path for path in sys.path if path and os.path.realpath(path) != here)
    for name, module in list(sys.modules.items()):
        if "." not in name:
            yield from list(getattr(module, "__path__", None) or ())


def _read_only(paths: Iterable[str]) -> None:
    version = _landlock_version()
    kinds = 13 + (version >= 2) + (version >= 3) + (version >= 5)  # ways to use a file that this version knows
    ruleset = _syscall(_CREATE_RULESET, struct.pack("=Q", (1 << kinds) - 1), 8, 0)
    for path in dict.fromkeys(paths):
        try:
            opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        ways = _READ_FILE | (_READ_FOLDER if Path(path).is_dir() else 0)
        _syscall(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", ways, opened), 0)
        os.close(opened)
    _syscall(_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _refuse_calls() -> None:
    filters = b"".join(struct.pack("=HBBI", *step) for step in _filter())
    buffer = ctypes.create_string_buffer(filters)
    program = struct.pack("@HP", len(filters) // 8, ctypes.addressof(buffer))
    _syscall(_SECCOMP[_MACHINES[platform.machine()][0]], 1, _ALL_THREADS, program)


def _filter() -> list[tuple[int, int, int, int]]:
    """Return instructions: code, steps to skip if true, steps to skip if false, value."""
    column, machine = _MACHINES[platform.machine()]
    own = os.getpid()
    steps = [(_LOAD, 0, 0, _AT_MACHINE), (_EQUAL, 1, 0, machine), (_RETURN, 0, 0, _DIE), (_LOAD, 0, 0, _AT_CALL)]
    if column == 0:
        steps += [(_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _EPERM)]
    for numbers in _REFUSED.values():
        if (number := numbers[column]) is not None:
            steps += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _EPERM)]
    steps += [
        (_EQUAL, 0, 1, _CLONE3[column]),
        (_RETURN, 0, 0, _ENOSYS),
    ]  # its flags are out of a filter's reach: libc uses clone
    for numbers, test, value in (
        (_CLONE, _ANY_BIT, _THREAD),
        (_KILL, _EQUAL, own),
        (_TGKILL, _EQUAL, own),
        (_PRLIMIT, _EQUAL, 0),  # of the calling process
    ):
        steps += [(_EQUAL, 0, 4, numbers[column]), (_LOAD, 0, 0, _AT_FIRST_ARGUMENT), (test, 1, 0, value)]
        steps += [(_RETURN, 0, 0, _EPERM), (_RETURN, 0, 0, _ALLOW)]
    return [*steps, (_RETURN, 0, 0, _ALLOW)]


def _landlock_version() -> int:
    return int(_libc().syscall(_CREATE_RULESET, None, 0, 1))


def _syscall(number: int, *arguments: int | bytes) -> int:
    return _called(_libc().syscall(number, *(ctypes.c_long(one) if isinstance(one, int) else one for one in arguments)))


def _called(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


@cache
def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)
