"""What floe.py takes floe.h to be, for layout.sh."""

from ctypes import Structure, sizeof

import floe

for name, value in vars(floe).items():
    if isinstance(value, int):
        print(f"{name} == {value}")
    elif isinstance(value, type) and issubclass(value, Structure) and name.startswith("floe_"):
        print(f"sizeof({name}) >= {sizeof(value)}")
        for field, _type in value._fields_:
            place = getattr(value, field)
            print(f"offsetof({name}, {field}) == {place.offset}")
            print(f"SIZE({name}, {field}) == {place.size}")
