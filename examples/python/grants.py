"""A grant: one megabyte that is filled once, goes to two receivers, and is copied by nobody."""

import byway

first, to_first = byway.records()
second, to_second = byway.records()

grant = byway.reserve(1 << 20)
with memoryview(grant) as view:
    view[:] = b"\7" * len(view)
grant = grant.share()
to_first.send_grant(grant)
to_second.send_grant(grant)


def address(grant):
    import ctypes

    # The address of memory that Python only reads: through a buffer of ctypes.
    obj = ctypes.py_object(grant)
    view = (ctypes.c_ssize_t * 16)()
    ctypes.pythonapi.PyObject_GetBuffer(obj, view, 0)
    at = view[0]
    ctypes.pythonapi.PyBuffer_Release(view)
    return at


a, b = first.receive_grant(), second.receive_grant()
assert bytes(a) == b"\7" * (1 << 20)
print(len(a), "bytes, the same memory:", str(address(a) == address(b)).lower())
