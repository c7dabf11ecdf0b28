"""A command in a process that is ended at its first attempt to reach anything: the check is the system's, not Python's.

    python tests/sealed.py socket|connect|send SETUP ARGUMENT …

runs `mallow ARGUMENT …` after the Python code SETUP. Any call of this kind by any thread, in whatever language it is written,
ends the process (SIGSYS). Python code that opens a file to write outside of the folders in SEALED_FOLDERS, a list, ends it
too, with the name of the file.
"""

import ctypes
import json
import os
import platform
import sys

NUMBERS = {
    "x86_64": {"socket": [41], "connect": [42], "send": [44, 46, 307]},  # send: sendto, sendmsg, sendmmsg
    "aarch64": {"socket": [198], "connect": [203], "send": [206, 211, 269]},
}
AVAILABLE = sys.platform == "linux" and platform.machine() in NUMBERS
_LOAD, _IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_KILL, _ALLOW = 0x80000000, 0x7FFF0000
_NO_NEW_PRIVILEGES, _SECCOMP, _FILTER = 38, 22, 2


class _Instruction(ctypes.Structure):
    _fields_ = [
        ("code", ctypes.c_ushort),
        ("if_true", ctypes.c_ubyte),
        ("if_false", ctypes.c_ubyte),
        ("value", ctypes.c_uint32),
    ]


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.POINTER(_Instruction))]


def forbid(call: str) -> None:
    """End this process at its next system call of this kind, but there is no way back."""
    numbers = NUMBERS[platform.machine()][call]
    checks = [line for number in numbers for line in ((_IF_EQUAL, 0, 1, number), (_RETURN, 0, 0, _KILL))]
    lines = [(_LOAD, 0, 0, 0), *checks, (_RETURN, 0, 0, _ALLOW)]
    instructions = (_Instruction * len(lines))(*(_Instruction(*line) for line in lines))
    program = _Program(len(lines), instructions)
    system = ctypes.CDLL(None, use_errno=True)
    if system.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) or system.prctl(_SECCOMP, _FILTER, ctypes.byref(program), 0, 0):
        raise OSError(ctypes.get_errno(), "no filter of system calls here")


def watch_files(folders: list[str]) -> None:
    """End this process when Python code opens a file to write outside of these folders."""

    def hook(event: str, arguments: tuple) -> None:
        if event != "open" or not isinstance(arguments[0], str | bytes):
            return
        path, mode, flags = arguments
        writes = bool(set("wxa+") & set(mode)) if mode else bool(flags & (os.O_WRONLY | os.O_RDWR))
        real = os.path.realpath(os.fsdecode(path))
        if writes and not real.startswith("/dev/") and not any(real.startswith(folder + os.sep) for folder in folders):
            os.write(2, f"sealed: {real} was opened to write\n".encode())
            os._exit(99)

    sys.addaudithook(hook)


if __name__ == "__main__":
    call, setup, *words = sys.argv[1:]
    watch_files([os.path.realpath(folder) for folder in json.loads(os.environ["SEALED_FOLDERS"])])
    forbid(call)
    exec(setup)
    from mallow import cli

    sys.argv = ["mallow", *words]
    cli.main()
