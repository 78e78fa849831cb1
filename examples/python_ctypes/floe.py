"""The part of floe/floe.h that all_reduce.py uses, by its C names. Copy it, add what you need."""

from ctypes import CDLL, POINTER, Structure, c_char_p, c_int, c_uint32, c_uint64, c_void_p, sizeof

FLOE_OK = 0
FLOE_INT32 = 6
FLOE_SUM = 0
FLOE_AVG = 1
FLOE_IN_PLACE = c_void_p(-1)


class SizedStructure(Structure):
    """What the _INIT macros do: struct_size is set, everything else is 0 unless given by name."""

    def __init__(self, **fields):
        super().__init__(struct_size=sizeof(self), **fields)


class floe_comm_config_t(SizedStructure):
    _fields_ = (
        ("struct_size", c_uint32),
        ("rank", c_uint32),
        ("size", c_uint32),
        ("reserved", c_uint32),
        ("name", c_char_p),
        ("timeout_ms", c_uint64),
    )


class floe_comm_info_t(SizedStructure):
    _fields_ = (
        ("struct_size", c_uint32),
        ("rank", c_uint32),
        ("size", c_uint32),
        ("local_rank", c_uint32),
        ("local_size", c_uint32),
        ("direct", c_uint32),
        ("timeout_ms", c_uint64),
    )


class FloeError(Exception):
    """A status other than FLOE_OK, and what floe says about it."""


def _check(status, _function, _arguments):
    if status != FLOE_OK:
        raise FloeError(f"{floe_status_string(status).decode()}: {floe_last_error().decode()}")


_library = CDLL("libfloe.so.0")


def _function(name, result, *arguments):
    function = getattr(_library, name)
    # Without argtypes ctypes would pass pointers as 32-bit integers.
    function.restype, function.argtypes = result, arguments
    if result is c_int:  # a floe_status_t
        function.errcheck = _check
    return function


floe_status_string = _function("floe_status_string", c_char_p, c_int)
floe_last_error = _function("floe_last_error", c_char_p)
floe_context_create = _function("floe_context_create", c_int, c_void_p, POINTER(c_void_p))
floe_context_destroy = _function("floe_context_destroy", c_int, c_void_p)
floe_comm_create_from_env = _function(
    "floe_comm_create_from_env", c_int, c_void_p, POINTER(floe_comm_config_t), POINTER(c_void_p)
)
floe_comm_destroy = _function("floe_comm_destroy", c_int, c_void_p)
floe_comm_info = _function("floe_comm_info", c_int, c_void_p, POINTER(floe_comm_info_t))
floe_all_reduce = _function(
    "floe_all_reduce",
    c_int,
    c_void_p,
    c_void_p,
    c_void_p,
    c_uint64,
    c_int,
    c_int,
    POINTER(c_void_p),
)
