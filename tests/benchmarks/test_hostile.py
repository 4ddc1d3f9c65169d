"""Reading a log of strace: what a confined process did in spite of it."""

from pathlib import Path

from benchmarks.documents.hostile import Escapes

CODE = Path(__file__)
LOG = f"""
10 openat(AT_FDCWD, "/etc/passwd", O_RDONLY|O_CLOEXEC) = 3
10 landlock_restrict_self(4, 0) = 0
10 openat(AT_FDCWD, "{CODE}", O_RDONLY|O_CLOEXEC) = 3
10 openat(AT_FDCWD, "/etc/passwd", O_RDONLY|O_CLOEXEC) = -1 EACCES (Permission denied)
10 socket(AF_INET, SOCK_STREAM, IPPROTO_TCP) = -1 EPERM (Operation not permitted)
10 clone(child_stack=0x7f, flags=CLONE_VM|CLONE_THREAD|CLONE_SETTLS <unfinished ...>
11 openat(AT_FDCWD, "/etc/hostname", O_RDONLY) = 5
10 <... clone resumed>, parent_tid=[11]) = 11
11 openat(AT_FDCWD, "{CODE}", O_WRONLY|O_CREAT, 0666) = 5
11 connect(3, {{sa_family=AF_INET}}, 16) = 0
"""


def test_what_confined_threads_open_and_what_is_refused_is_told() -> None:
    escapes = Escapes()
    escapes.read(LOG.strip().splitlines())
    assert escapes.confined == {"10", "11"}
    assert escapes.refused == {"openat": 1, "socket": 1}
    assert [one.partition("(")[0] for one in escapes.found] == ["openat", "connect"]
