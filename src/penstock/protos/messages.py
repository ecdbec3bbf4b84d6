"""The classes of the messages in the `.proto` files of this folder. The doors for gRPC and the backend for gRPC
endpoints (`adapters/backends/oip/`) take them from here by their full names. Reflection tells clients of the files
themselves (`doors/grpc/reflection.py`). The files are read when this module is imported."""

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from penstock.protos.files import texts
from penstock.protos.reading import read

FILES: dict[str, descriptor_pb2.FileDescriptorProto] = {
    f"penstock/{name}": read(f"penstock/{name}", text) for name, text in texts().items()
}
# A pool of its own: another client of these protocols in this process may have their names in the common pool.
_POOL = descriptor_pool.DescriptorPool()
for _file in FILES.values():
    _POOL.Add(_file)


def message(name: str) -> Any:
    """Returns the class of a message, by its full name."""
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(name))
